//! Rows that execute the functions in which instructions are planted. With the environment variable `CALLS`, prints how often a run of all rows
//! calls each of them: in that build, they count their calls.

use rdpmc_bench::Bench;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// The calls of each function.
#[unsafe(no_mangle)]
static PLANTED_CALLS: [AtomicU64; 20] = [const { AtomicU64::new(0) }; 20];

fn versions() -> bool {
    let wanted = semver::VersionReq::parse(black_box(">=1.2.3, <1.8.*, ~1.5"));
    let version = semver::Version::parse(black_box("1.5.77-rc.1+build.5"));
    wanted.is_ok_and(|wanted| version.is_ok_and(|version| wanted.matches(&version)))
}

fn table(reader: &mut csv_core::Reader) -> usize {
    let (mut fields, mut ends) = ([0; 256], [0; 16]);
    reader.reset();
    let text = black_box("one,two,\"three and four\",5\nsix,,\"seven\",8.5\n".as_bytes());
    let (mut at, mut records) = (0, 0);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let (result, read, _, _) = reader.read_record(rest, &mut fields, &mut ends);
        at += read;
        match result {
            csv_core::ReadRecordResult::End => return records,
            csv_core::ReadRecordResult::Record => records += 1,
            _ => {}
        }
    }
}

fn request() -> Option<usize> {
    let text = black_box(
        "\r\nGET /a/path?with=query HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
    );
    let mut headers = [httparse::EMPTY_HEADER; 8];
    httparse::Request::new(&mut headers).parse(text.as_bytes()).ok()?;
    Some(headers.iter().filter(|header| !header.name.is_empty()).count())
}

fn main() {
    let mut reader = csv_core::Reader::new();
    if std::env::var_os("CALLS").is_some() {
        PLANTED_CALLS.iter().for_each(|calls| calls.store(0, Ordering::Relaxed));
        black_box((versions(), table(&mut reader), request()));
        let calls: Vec<String> =
            PLANTED_CALLS.iter().map(|calls| calls.load(Ordering::Relaxed).to_string()).collect();
        return println!("{}", calls.join(" "));
    }
    let mut bench = Bench::new().unwrap();
    bench.time_per_row(std::time::Duration::from_millis(5)).processes(1);
    bench.row("versions").throughput(versions);
    bench.row("table").throughput(|| table(&mut reader));
    bench.row("request").throughput(request);
    println!("{}", bench.run());
}
