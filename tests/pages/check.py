"""Compares what a browser shows of the pages with the reports, and what Perfetto's definitions decode with the records."""

import json
import re
import sys
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

ROOM = Path(sys.argv[1])


class Page(HTMLParser):
    """The tables below each heading, the headings, links, labels and charts of a page."""

    def __init__(self, name):
        super().__init__()
        self.tables, self.headings, self.paragraphs, self.summaries = [], [], [], []
        self.ids, self.links, self.scripts, self.loads = set(), [], 0, []
        self.unlabelled, self.bars, self.dots = 0, 0, []
        self.into, self.heading, self.is_in_link = None, "", False
        self.feed((ROOM / f"{name}.dom").read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        self.scripts += tag == "script"
        self.loads += [attributes[name] for name in ("src", "data") if name in attributes]
        self.unlabelled += tag == "svg" and not attributes.get("aria-label")
        self.bars += tag == "rect"
        if tag == "a":
            self.links.append(attributes.get("href") or attributes.get("xlink:href"))
        if tag == "circle":
            self.dots.append(attributes)
        if tag == "table":
            self.tables.append((self.heading, []))
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("th", "td"):
            self.into = self.tables[-1][1][-1]
            self.into.append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")
            self.into = self.headings
        if tag == "summary":
            self.summaries.append("")
            self.into = self.summaries
        if tag in ("p", "li"):
            self.paragraphs.append("")
            self.into = self.paragraphs

    def handle_data(self, data):
        if self.into is not None:
            self.into[-1] += data

    def handle_endtag(self, tag):
        if tag in ("h1", "h2", "h3"):
            self.heading = self.headings[-1]
        if tag in ("th", "td", "h1", "h2", "h3", "p", "li", "summary"):
            self.into = None

    def says(self, sentence):
        """Whether a paragraph begins with it."""
        return any(paragraph.startswith(sentence) for paragraph in self.paragraphs)

    def table(self, heading):
        return next(rows for known, rows in self.tables if known == heading)


def is_sound(name):
    """What holds for every page."""
    page = Page(name)
    assert page.scripts == 0 and not page.loads, f"{name} has scripts or loads {page.loads}"
    assert page.unlabelled == 0, f"{name} has charts without a label"
    for link in page.links:
        assert link.startswith("#") and link[1:] in page.ids, f"{name}: {link} leads nowhere"
    for _, (head, *rows) in page.tables:
        assert all(len(row) == len(head) for row in rows), f"{name}: rows differ in their cells"
    return page


def time(ns):
    """Nanoseconds as the reports show them."""
    if ns < 1000:
        return f"{ns} ns"
    size, unit = next((size, unit) for size, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] if ns >= size * 0.9995)
    value = ns / size
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"


def shown(name):
    """A name as pages show it."""
    return name.replace("\n", "\\n")


def planted():
    page = is_sound("planted")
    report = json.loads((ROOM / "planted.json").read_text())
    head, *rows = page.table("All spans")
    found = {(row[0], row[1]): row for row in rows if row[3] == "time"}
    assert len(found) == len(report["rows"])
    for row in report["rows"]:
        cells = found[shown(row["thread"]), shown(row["name"])]
        assert cells[2] == str(row["count"])
        assert cells[5:9] == [time(row["ns"][key]) for key in ("p50", "p99", "p999", "max")], (cells, row)
    for row in report["rows"]:
        title = f"{shown(row['name'])} on {shown(row['thread'])}"
        count = f"{row['count']} span{'' if row['count'] == 1 else 's'}"
        assert f"{title}: {count}, median {time(row['ns']['p50'])}" in page.summaries, (title, page.summaries)
    # The slow spans, the slowest first, with their causes and what ran inside.
    slow = [heading for heading in page.headings if re.match(r"\d+\. frame \d+ on main: ", heading)]
    assert len(slow) == len(report["slowest"]) == 3
    lines = [json.loads(line) for line in (ROOM / "planted.lines").read_text().splitlines()]
    for heading, of in zip(slow, report["slowest"]):
        sentence = of["line"]
        place, number = map(int, re.match(r"(\d+)\. frame (\d+)", heading).groups())
        assert sentence.startswith(f"frame {number} on main: ") and page.says(sentence.split(" UTC. ")[1])
        assert f"{of['place']['name']} took {time(of['place']['ns'])}" in sentence and of["number"] == number
        root = next(line for line in lines if line["name"] == "frame" and line["number"] == number)
        end = root["start_ns"] + root["ns"]
        is_inside = lambda line: line["thread"] == "main" and root["start_ns"] <= line["start_ns"] <= line["start_ns"] + line["ns"] <= end
        expected = Counter((shown(line["name"]), time(line["ns"]), str(line["cache-misses"])) for line in lines if is_inside(line) and line is not root)
        head, *rows = page.table(heading)
        cells = lambda row: dict(zip(head, row))
        rows = [cells(row) for row in rows if cells(row)["thread"] == "main" and cells(row)["span"] != f"frame {number}"]
        assert Counter((row["span"], row["time"], row["cache-misses"]) for row in rows) == expected
    dots = [link for link in page.links if re.fullmatch(r"#slow-\d+", link)]
    assert sorted(dots) == ["#slow-1", "#slow-2", "#slow-3"]
    records = len(lines)
    assert records > 100_000 and page.bars < 3_000
    print(f"planted.html: {records} records, {page.bars} bars; the percentiles and the spans of {len(slow)} slow frames are those of the report")
    return lines


def frames():
    page = is_sound("frames")
    text = (ROOM / "frames.txt").read_text()
    printed = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    rows = page.table("All spans")
    assert len(printed) == len(rows) >= 6
    for one, other in zip(printed, rows):
        assert [cell for cell in one if cell] == [cell for cell in other if cell], (one, other)
    slowest = re.findall(r"^\d+\. (frame \d+ on main: .* UTC)\. (.*)$", text, re.MULTILINE)
    headings = [heading.split(". ", 1)[1] for heading in page.headings if heading[0].isdigit()]
    assert [re.sub(r", usually [^,]*, at", " at", heading) for heading, _ in slowest] == headings
    assert all(page.says(cause) for _, cause in slowest)
    print("frames.html: the table and the slowest frames are those that were printed")


def ticks():
    page = is_sound("ticks")
    text = (ROOM / "ticks.txt").read_text()
    rows = {row[1]: row for row in page.table("All spans")[1:] if row[3] == "time"}
    assert set(rows) == {"decode", "update", "encode", "tick to trade"}
    for name, row in rows.items():
        value = lambda pattern: float(re.search(pattern.replace("NAME", f'thread="ticks",span="{name}"[^}}]*'), text).group(1))
        assert int(row[2]) == int(value(r"rdpmc_span_seconds_count\{NAME\} (\S+)"))
        for place, quantile in [(5, "0.5"), (6, "0.99"), (7, "0.999")]:
            seconds = value(rf'rdpmc_span_quantile_seconds\{{NAME,quantile="{quantile}"\}} (\S+)')
            assert row[place] == time(round(seconds * 1e9)), (name, quantile, row, seconds)
    print("ticks.html: the percentiles are those for Prometheus")


def quickstart():
    page = is_sound("quickstart")
    text = (ROOM / "quickstart.txt").read_text()
    printed = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    rows = page.tables[0][1]
    # The name is the first cell here, and the last one there.
    assert [row[-1:] + row[:-1] for row in printed] == rows, (printed, rows)
    for row in rows[1:]:
        assert row[0] in page.headings
    assert "The distributions are in" in text
    print("quickstart.html: the table is the one that was printed")


def decoded(name):
    """The spans of a trace, as Perfetto's trace processor would nest them, and the bytes of the file."""
    data = (ROOM / f"{name}.pftrace").read_bytes()
    packets = []
    for packet in Trace.FromString(data).packet:
        inner = zlib.decompress(packet.compressed_packets) if packet.HasField("compressed_packets") else None
        packets += Trace.FromString(inner).packet if inner else [packet]
    sequences, tracks, events = {}, {}, []
    for packet in packets:
        of = sequences.setdefault(packet.trusted_packet_sequence_id, {"names": {}, "places": {}, "arguments": {}, "strings": {}, "now": None, "track": None})
        if packet.HasField("trace_packet_defaults"):
            of["now"], of["track"] = 0, packet.trace_packet_defaults.track_event_defaults.track_uuid
            assert packet.trace_packet_defaults.timestamp_clock_id == packet.clock_snapshot.clocks[0].clock_id >= 64
            assert packet.clock_snapshot.clocks[0].is_incremental
        interned = packet.interned_data
        of["names"].update((entry.iid, entry.name) for entry in interned.event_names)
        of["places"].update((entry.iid, (entry.file_name, entry.line_number)) for entry in interned.source_locations)
        of["arguments"].update((entry.iid, entry.name) for entry in interned.debug_annotation_names)
        of["strings"].update((entry.iid, entry.str.decode()) for entry in interned.debug_annotation_string_values)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track.thread.thread_name or track.name
        if packet.HasField("track_event"):
            event = packet.track_event
            if of["now"] is not None:
                of["now"] += packet.timestamp
            at = packet.timestamp if of["now"] is None else of["now"]
            events.append((at, event.track_uuid if event.HasField("track_uuid") else of["track"], event, of))
    events.sort(key=lambda event: event[0])
    spans, open_spans, counters = [], {}, Counter()
    for at, track, event, of in events:
        stack = open_spans.setdefault(track, [])
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            file, line = of["places"][event.source_location_iid]
            arguments = {}
            for argument in event.debug_annotations:
                value = argument.uint_value
                if argument.HasField("string_value_iid"):
                    value = of["strings"][argument.string_value_iid].split(", ")
                if argument.HasField("string_value"):
                    continue # the cause, which is no part of the records
                arguments[of["arguments"][argument.name_iid]] = value
            stack.append((at, {"name": of["names"][event.name_iid], "file": file, "line": line, "thread": tracks[track], **arguments}))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, span = stack.pop()
            spans.append({**span, "start_ns": start, "ns": at - start, "parent": stack[-1][1]["name"] if stack else None})
        elif event.type == TrackEvent.TYPE_COUNTER:
            counters[tracks[track]] += 1
    assert not any(open_spans.values())
    return spans, counters, len(data)


def trace(lines):
    spans, counters, size = decoded("planted")
    keep = lambda line: {key: value for key, value in line.items() if key != "thread_number" and value not in (None, [])}
    text = lambda line: json.dumps(keep(line), sort_keys=True)
    assert Counter(map(text, spans)) == Counter(map(text, lines))
    outermost = sum(line["parent"] is None for line in lines)
    assert counters["IPC"] == 2 * outermost, counters
    print(f"planted.pftrace: {len(spans)} spans with four counts are those of the lines of JSON; {size / len(spans):.1f} bytes a record; tracks: {dict(counters)}")
    spans, _, size = decoded("frames")
    assert Counter(span["name"] for span in spans) == {name: 120 for name in ("frame", "input", "render", "collisions", "paths")}
    print(f"frames.pftrace: {len(spans)} spans, {size / len(spans):.1f} bytes a record")


def pictures():
    """The pages are light or dark as the reader wishes, and what is folded is printed."""

    def first_pixel(name):
        data, place, pixels = (ROOM / f"{name}.png").read_bytes(), 8, b""
        while place < len(data):
            length = int.from_bytes(data[place : place + 4], "big")
            if data[place + 4 : place + 8] == b"IDAT":
                pixels += data[place + 8 : place + 8 + length]
            place += length + 12
        # The first pixel of the first row has no neighbours, so every filter leaves it as it is.
        return tuple(zlib.decompress(pixels)[1:4])

    assert first_pixel("planted") == (255, 255, 255) and max(first_pixel("planted-dark")) < 32
    pages = len(re.findall(rb"/Type\s*/Page\b", (ROOM / "planted.pdf").read_bytes()))
    # Twenty curves and three tables are folded on the screen.
    assert pages > 10, pages
    print(f"planted.pdf: {pages} pages")


trace(planted())
frames()
ticks()
quickstart()
pictures()
print("all pages were read back")
