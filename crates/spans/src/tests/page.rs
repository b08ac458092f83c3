//! The page of an interval, and the causes that it tells.

use crate::output::perfetto::Missing;
use crate::output::{PerfettoTrace, cause, json, page};
use crate::tests::game::{Game, interval};
use std::path::PathBuf;

/// Five thousand frames with 100,000 records, three of which are slow for causes that are known.
fn planted() -> crate::batch::Batch {
    let mut game = Game::planted([1_200, 2_900, 4_100]);
    let mut records = Vec::new();
    (0..4_900).for_each(|_| game.frame(&mut records));
    interval(records, 3)
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn planted_causes() {
    let batch = planted();
    let mut causes: Vec<(Option<u64>, String)> =
        batch.slow.iter().map(|tree| (tree.root.number, cause::of(&batch, tree))).collect();
    causes.sort();
    let expected = [
        (1_200, "It was preempted, in solve. "),
        (2_900, "It had "),
        (
            4_100,
            "It was interrupted: the kernel executed instructions for an interrupt, a fault or a system call, in mix. ",
        ),
    ];
    for ((number, cause), (frame, begin)) in causes.iter().zip(expected) {
        assert_eq!(*number, Some(frame), "{causes:#?}");
        assert!(cause.starts_with(begin), "{cause}");
    }
    assert!(causes[1].1.contains(" cache-misses, the median is "), "{causes:#?}");
    for (tree, stage) in batch.slow.iter().zip(["sort", "mix", "solve"]) {
        let mut page = Vec::new();
        page::write(&crate::batch::Batch { slow: vec![tree.clone()], ..batch.clone() }, &mut page)
            .unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(
            page.contains(&format!(" The largest excess is in {stage}: it took 8.")),
            "{stage}"
        );
    }
    assert!(causes[1].1.contains(". Most are in sort. "), "{causes:#?}");
}

/// No name is taken for HTML, and the page does not grow with the records.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_page_of_any_names() {
    let batch = planted();
    let mut page = Vec::new();
    page::write(&batch, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("job &lt;&quot;&amp;&#39;&gt;\\n"), "{page}");
    assert!(!page.contains("<script") && !page.contains("job <"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for number in [1_200, 2_900, 4_100] {
        assert_eq!(page.matches(&format!(". frame {number} on main: ")).count(), 1);
    }
    for tag in ["svg", "table", "details", "h3", "rect", "a"] {
        let begins =
            page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(begins, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// Without records, spans and counts, there is a page all the same.
#[test]
fn the_page_of_nothing() {
    let mut page = Vec::new();
    page::write(&interval(Vec::new(), 3), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("0 spans on 0 threads."), "{page}");
}

/// Writes the page, the report as JSON, the records as lines of JSON, and the trace, for `tests/pages/run`.
#[test]
#[ignore = "`tests/pages/run` opens its files in a browser"]
fn files_for_a_browser() {
    let directory = PathBuf::from(std::env::var_os("RDPMC_PAGES").unwrap());
    let batch = planted();
    let file = |name: &str| std::fs::File::create(directory.join(name)).unwrap();
    let begun = std::time::Instant::now();
    page::write(&batch, file("planted.html")).unwrap();
    println!("{} records: the page took {} ms", batch.records.len(), begun.elapsed().as_millis());
    json::write_report(&batch, file("planted.json")).unwrap();
    json::write_lines(&batch, file("planted.lines")).unwrap();
    let mut trace = PerfettoTrace::new(file("planted.pftrace"));
    trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
    trace.finish().unwrap();
}
