//! The page of an interval, and the causes that it tells.

use crate::cause::{Cause, Reason, Usual};
use crate::output::perfetto::Missing;
use crate::output::{PerfettoTrace, json, page};
use crate::tests::game::{Game, Waits, interval};
use std::path::PathBuf;

const WHY: [&str; 3] = ["solve", "sort", "mix"];

/// Five thousand frames with 100,000 records, three of which are slow for causes that are known.
fn planted(waits: Waits) -> crate::batch::Batch {
    let mut game = Game::planted([1_200, 2_900, 4_100]);
    game.waits = waits;
    let mut records = Vec::new();
    (0..4_900).for_each(|_| game.frame(&mut records));
    interval(records, 3)
}

/// Whether each frame waits or none does: the cause is that of the stage that was slow.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn planted_causes() {
    for waits in [Waits::Never, Waits::OfUnknownTime, Waits::OfKnownTime] {
        let batch = planted(waits);
        let usual = Usual::new(&batch);
        let cause = |tree| Cause::find(&usual, tree);
        let mut causes: Vec<(Option<u64>, Cause)> =
            batch.slow.iter().map(|tree| (tree.root.number(), cause(tree))).collect();
        causes.sort_by_key(|(number, _)| *number);
        for ((number, cause), stage) in causes.iter().zip(WHY) {
            println!("{waits:?}, {number:?}: {cause}");
            let place = cause.place.as_ref().unwrap();
            assert_eq!((place.name, place.is_root, place.is_own), (stage, false, false), "{cause}");
            assert!(cause.waited_for.is_empty(), "{cause}");
            assert!(!cause.reasons.iter().any(|it| matches!(it, Reason::Waited { .. })), "{cause}");
        }
        let [(_, solve), (_, sort), (_, mix)] = &causes[..] else { panic!("{causes:?}") };
        assert!(matches!(solve.reasons[..], [Reason::Preempted { time: Some(_) }]), "{solve}");
        assert!(
            matches!(
                sort.reasons[..],
                [Reason::Ran { .. }, Reason::Event { .. }, Reason::SlowInstructions { .. }]
            ),
            "{sort}"
        );
        assert!(matches!(mix.reasons[..], [Reason::Ran { .. }, Reason::Kernel { .. }]), "{mix}");
        let mut page = Vec::new();
        page::write(&batch, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for (_, cause) in &causes {
            assert!(page.contains(&cause.to_string()), "{cause}");
        }
    }
}

/// No name is taken for HTML, and the page does not grow with the records.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_page_of_any_names() {
    let batch = planted(Waits::OfKnownTime);
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
    let batch = planted(Waits::OfKnownTime);
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
