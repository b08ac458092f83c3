//! A benchmark as users write it, run with criterion's own arguments: what is printed, saved and compared. The event is page
//! faults, which the kernel counts exactly on every machine. There is no test harness, because the arguments are criterion's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use criterion::{BatchSize, BenchmarkId, Throughput, criterion_group};
use rdpmc::{Counter, Event};
use rdpmc_criterion::{CountersOrTime, Criterion, Gate, Limits, Scope, Status};
use rdpmc_testing::memory::Memory;
use rdpmc_testing::skips;
use std::cell::OnceCell;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{env, fs};

/// Set for the benchmark: the events, and the number of page faults.
const EVENTS: &str = "RDPMC_TEST_EVENTS";
const FAULTS: &str = "RDPMC_TEST_FAULTS";

fn faults(criterion: &mut Criterion) {
    if env::var(EVENTS).unwrap() == "stepped" {
        return instructions(criterion);
    }
    let memory = Memory::new();
    let pages: usize = env::var(FAULTS).unwrap().parse().unwrap();
    if env::var(EVENTS).unwrap() == "namesakes" {
        // Of one title, and in the directory of another's baseline.
        criterion
            .benchmark_group("a/b")
            .bench_function("c", |bencher| bencher.iter(|| memory.fault(2)));
        let id = BenchmarkId::new("b", "c");
        criterion
            .benchmark_group("a")
            .bench_function(id, |bencher| bencher.iter(|| memory.fault(pages)));
        criterion.bench_function("d", |bencher| bencher.iter(|| memory.fault(3)));
        let mut group = criterion.benchmark_group("d");
        group.bench_function("base", |bencher| bencher.iter(|| memory.fault(pages)));
        group.bench_function("x", |bencher| bencher.iter(|| memory.fault(pages)));
        return;
    }
    let mut group = criterion.benchmark_group("fault/s"); // not the name of its directory
    group.throughput(Throughput::Elements(pages as u64));
    let is_slow = env::var(EVENTS).unwrap() == "slow";
    group.bench_function("iter", |bencher| {
        let iteration = || {
            if is_slow {
                std::thread::sleep(Duration::from_millis(5));
            }
            memory.fault(pages);
        };
        // `--quick` has no warm-up. The first run of code whose page the kernel had dropped is a page fault.
        iteration();
        bencher.iter(iteration);
    });
    group.bench_function("batched", |bencher| {
        bencher.iter_batched(|| memory.fault(9), |()| memory.fault(pages), BatchSize::PerIteration);
    });
    group.finish();
    criterion
        .bench_function("a benchmark with a long name", |bencher| bencher.iter(|| memory.fault(3)));
    if ["thread", "process"].contains(&env::var(EVENTS).unwrap().as_str()) {
        in_a_pool(criterion, pages);
    }
}

/// A benchmark whose work is that of another thread.
fn in_a_pool(criterion: &mut Criterion, pages: usize) {
    let ((work, works), (done, is_done)) = (sync_channel(1), sync_channel(1));
    let thread = std::thread::spawn(move || {
        let memory = Memory::new();
        while works.recv().is_ok() {
            memory.fault(pages);
            done.send(()).unwrap();
        }
    });
    let mut iteration = || {
        work.send(()).unwrap();
        is_done.recv().unwrap();
    };
    iteration();
    criterion.bench_function("in a pool", |bencher| bencher.iter(&mut iteration));
    drop(work);
    thread.join().unwrap();
}

/// A benchmark with one instruction more if there is one fault more.
fn instructions(criterion: &mut Criterion) {
    macro_rules! instructions {
        // SAFETY: the instructions do nothing.
        ($($nop:literal),*) => { unsafe { std::arch::asm!($($nop),*) } };
    }
    let has_more = env::var(FAULTS).unwrap() == "5";
    let mut group = criterion.benchmark_group("nops");
    group.bench_function("iter", |bencher| match has_more {
        false => bencher.iter(|| instructions!("nop", "nop")),
        true => bencher.iter(|| instructions!("nop", "nop", "nop")),
    });
    group.bench_function("batched", |bencher| match has_more {
        false => {
            bencher.iter_batched(|| (), |()| instructions!("nop", "nop"), BatchSize::SmallInput)
        }
        true => bencher.iter_batched(
            || (),
            |()| instructions!("nop", "nop", "nop"),
            BatchSize::SmallInput,
        ),
    });
}

fn config() -> Criterion {
    // No machine has this event.
    let nowhere = Event::of_pmu(u32::MAX, 0);
    let criterion = match env::var(EVENTS).unwrap().as_str() {
        "counted" | "slow" | "namesakes" => rdpmc_criterion::counters([
            Event::PAGE_FAULTS,
            Event::MINOR_FAULTS,
            nowhere,
            Event::DUMMY,
        ]),
        "thread" | "process" => {
            let settings = CountersOrTime::builder([Event::PAGE_FAULTS, Event::MINOR_FAULTS]);
            let is_all = env::var(EVENTS).unwrap() == "process";
            settings.scope(if is_all { Scope::Process } else { Scope::Thread }).criterion()
        }
        "time" => rdpmc_criterion::counters([nowhere, Event::PAGE_FAULTS]),
        "time alone" => rdpmc_criterion::counters([nowhere]),
        "stepped" => {
            let counters = rdpmc_criterion::instructions();
            return counters.sample_size(10).nresamples(1_001).without_plots();
        }
        _ => unreachable!(),
    };
    criterion
        .sample_size(10)
        .nresamples(1_001)
        .warm_up_time(Duration::from_millis(2))
        .measurement_time(Duration::from_millis(20))
}

criterion_group! { name = benches; config = config(); targets = faults }

fn main() {
    if env::var_os(EVENTS).is_some() {
        benches();
        return criterion::Criterion::default().configure_from_args().final_summary();
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let filters = || arguments.iter().filter(|argument| !argument.starts_with('-'));
    let tests = [
        ("kinds_do_not_share_names", kinds_do_not_share_names as fn(&Home)),
        ("a_planted_fault_is_found", a_planted_fault_is_found),
        ("what_cannot_be_compared_is_said", what_cannot_be_compared_is_said),
        ("a_planted_instruction_is_found", a_planted_instruction_is_found),
        ("namesakes_are_told_apart", namesakes_are_told_apart),
        ("programs_with_namesakes_are_noticed", programs_with_namesakes_are_noticed),
        ("a_pool_that_grows_is_noticed", a_pool_that_grows_is_noticed),
        ("a_full_disk_is_noticed", a_full_disk_is_noticed),
        ("another_process_is_noticed", another_process_is_noticed),
        ("criterions_options_work", criterions_options_work),
        ("a_terminal_shows_the_same", a_terminal_shows_the_same),
    ];
    for (name, test) in tests {
        if filters().count() > 0 && !filters().any(|filter| name.contains(filter)) {
            continue;
        }
        if arguments.iter().any(|argument| argument == "--list") {
            println!("{name}: test");
            continue;
        }
        if let Some(why) = Counter::open(Event::PAGE_FAULTS).err() {
            return skips::skip("baselines", &why.to_string());
        }
        let home = Home(env::temp_dir().join(format!("rdpmc-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&home.0);
        fs::create_dir_all(&home.0).unwrap();
        test(&home);
        println!("test {name} ... ok");
    }
}

/// A directory for criterion's directories, removed when this is dropped.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local!(static GATE: OnceCell<PathBuf> = const { OnceCell::new() });

/// Builds `rdpmc-gate`, and returns its path.
fn built_gate() -> PathBuf {
    let this = env::current_exe().unwrap(); // TARGET/PROFILE/deps/baselines-HASH
    let directory = this.ancestors().nth(2).unwrap();
    let profile = directory.file_name().unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "dev" } else { profile };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "rdpmc-report", "--profile", profile]);
    cargo.arg("--target-dir").arg(directory.parent().unwrap());
    assert!(cargo.status().unwrap().success());
    directory.join("rdpmc-gate")
}

impl Home {
    fn criterion(&self) -> PathBuf {
        self.0.join("criterion")
    }

    /// Runs the benchmark. Returns its log, standard output and standard error in one.
    #[track_caller]
    fn bench(&self, events: &str, faults: usize, arguments: &str) -> String {
        self.bench_by(Command::new(env::current_exe().unwrap()), events, faults, arguments)
    }

    /// Runs the benchmark by this command.
    #[track_caller]
    fn bench_by(&self, mut this: Command, events: &str, faults: usize, arguments: &str) -> String {
        let path = self.0.join("log");
        let log = fs::File::create(&path).unwrap();
        this.arg("--bench").args(arguments.split_whitespace());
        this.env(EVENTS, events).env(FAULTS, faults.to_string());
        this.env("CRITERION_HOME", self.criterion());
        let status = this.stderr(log.try_clone().unwrap()).stdout(log).status().unwrap();
        let printed = fs::read_to_string(&path).unwrap();
        assert!(status.success(), "{arguments}: {printed}");
        printed
    }

    /// Runs the gate's command. Returns its status, and what it prints.
    fn gate(&self, arguments: &str) -> (i32, String) {
        let mut gate = Command::new(GATE.with(|path| path.get_or_init(built_gate).clone()));
        gate.args(arguments.split_whitespace()).env("CRITERION_HOME", self.criterion());
        let output = gate.output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
    }

    #[track_caller]
    fn gates(&self, arguments: &str, status: i32, lines: &[&str]) {
        let (found, printed) = self.gate(arguments);
        assert_eq!(found, status, "{arguments}: {printed}");
        for line in lines {
            assert!(printed.contains(line), "{arguments}: no {line} in {printed}");
        }
    }

    fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }

    /// Replaces text in the results of all benchmarks under a name.
    fn edit(&self, kind: &str, baseline: &str, from: &str, to: &str) {
        let mut edited = 0;
        for benchmark in ["fault_s/iter", "fault_s/batched", "a benchmark with a long name"] {
            let path = self.0.join(kind).join(benchmark).join(baseline).join("counters.json");
            let text = fs::read_to_string(&path).unwrap();
            edited += usize::from(text.contains(from));
            fs::write(&path, text.replace(from, to)).unwrap();
        }
        assert_eq!(edited, 3, "{from}");
    }
}

/// Returns the lines between the announcement of a report and its end.
#[track_caller]
fn report<'a>(printed: &'a str, benchmark: &str) -> Vec<&'a str> {
    let (_, behind) =
        printed.split_once(&format!("Benchmarking {benchmark}: Analyzing\n")).expect(printed);
    behind
        .lines()
        .take_while(|line| !line.is_empty() && !line.starts_with("Benchmarking"))
        .map(str::trim)
        .collect()
}

fn exists(directory: &Path, file: &str) -> bool {
    directory.join(file).exists()
}

/// Counts and time have directories of their own, and the log says which it is and why.
fn kinds_do_not_share_names(home: &Home) {
    let counted = home.bench("counted", 4, "");
    let lines = report(&counted, "fault/s/iter");
    assert!(lines[0].starts_with("Not counted: "), "{counted}");
    assert!(lines[1].starts_with("fault/s/iter            minor-faults: [4.0"), "{counted}");
    assert_eq!(lines[2], "dummy:  [0.0000 events 0.0000 events 0.0000 events]", "{counted}");
    assert!(lines[3].starts_with("fault/s/iter            time:   [4.0"), "{counted}");
    assert_eq!(counted.matches("Not counted: ").count(), 1, "{counted}");
    assert_eq!(counted.matches("No counters: ").count(), 0, "{counted}");
    // A long name has a line of its own, as in criterion's report.
    let lines = report(&counted, "a benchmark with a long name");
    assert_eq!(lines[0], "a benchmark with a long name", "{counted}");
    assert!(lines[1].starts_with("minor-faults: [3.0"), "{counted}");
    assert!(!counted.contains("change:"), "{counted}");

    let timed = home.bench("time", 4, "");
    let lines = report(&timed, "fault/s/iter");
    assert!(lines[0].starts_with("No counters: "), "{timed}");
    assert!(lines[1].starts_with("fault/s/iter            page-faults: [4.0"), "{timed}");
    assert!(lines[2].starts_with("fault/s/iter            time:   ["), "{timed}");
    assert!(lines[2].ends_with("s]") && !lines[2].contains("faults"), "{timed}");
    assert_eq!(timed.matches("No counters: ").count(), 1, "{timed}");
    // Nothing is compared with what it is not.
    assert!(!timed.contains("change:"), "{timed}");
    let again = home.bench("time alone", 4, "");
    assert!(again.contains("change:") && !again.contains("page-faults"), "{again}");

    let expected = ["criterion-page-faults", "criterion-time"];
    for kind in expected {
        for file in
            ["report/index.html", "fault_s/report/index.html", "fault_s/iter/report/index.html"]
        {
            assert!(home.has(&format!("{kind}/{file}")), "{kind}/{file}");
        }
        let index = fs::read_to_string(home.0.join(kind).join("report/index.html")).unwrap();
        let links = index.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let links: Vec<&str> = links.filter(|link| link.starts_with("../")).collect();
        assert!(links.len() >= 3, "{index}");
        for link in links {
            assert!(exists(&home.0.join(kind).join("report"), link), "{kind}: {link}");
        }
    }
    // Our page has the counts, and links to criterion's reports.
    for kind in expected {
        let page = fs::read_to_string(home.0.join(kind).join("index.html")).unwrap();
        // The last run of the other kind was by time alone.
        let has_counts = page.contains("<th scope=col class=n>page-faults</th>");
        assert_eq!(has_counts, kind == "criterion-page-faults", "{page}");
        assert!(page.contains(">fault/s/iter</a>"), "{page}");
        let links = page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let (inside, outside): (Vec<&str>, Vec<&str>) = links.partition(|it| it.starts_with('#'));
        assert!(!inside.is_empty() && outside.len() >= 2, "{inside:?} {outside:?}");
        for link in inside {
            assert!(page.contains(&format!("id=\"{}\"", &link[1..])), "{link}");
        }
        for link in outside {
            assert!(exists(&home.0.join(kind), &link.replace("%20", " ")), "{kind}: {link}");
        }
    }
    assert!(!home.has("criterion"), "criterion's own directory is for wall time");
    // A later run knows criterion's names.
    let lines = home.bench("counted", 4, "");
    let first = report(&lines, "fault/s/iter")[1];
    assert!(first.starts_with("fault/s/iter            minor-faults: "), "{lines}");
}

/// One more page fault in each iteration of a thread of a pool: counted with all threads, and never compared without them.
fn a_pool_that_grows_is_noticed(home: &Home) {
    let one = home.bench("thread", 4, "--save-baseline a");
    let lines = report(&one, "in a pool");
    assert!(lines[0].contains("minor-faults: [0.0000 faults"), "{one}");
    assert!(lines[0].ends_with("] of this thread alone"), "{one}");
    assert!(lines[1].starts_with("other threads: they had "), "{one}");
    let remedy = "Count all with `CountersOrTime::builder(...).scope(Scope::Process)`";
    assert!(lines[1].ends_with(remedy), "{one}");
    assert!(!report(&one, "fault/s/iter").join("").contains("other threads"), "{one}");
    let again = home.bench("thread", 15, "--baseline a");
    let said = "change: not known, because other threads worked";
    assert_eq!(again.matches(said).count(), 1, "{again}");
    // A pool that grew is not passed. Those of this thread are worse.
    let gated = "a --accept page-faults=1% --accept minor-faults=1%";
    let line = "in a pool, page-faults: 0, was 0 (+0.0000%): too unstable to compare";
    home.gates(gated, 1, &[line]);

    let all = home.bench("process", 4, "--save-baseline b");
    assert!(!all.contains("other threads"), "{all}");
    assert!(!all.contains("change:"), "{all}");
    let lines = report(&all, "in a pool");
    assert!(
        lines[0].contains("minor-faults: [4.0000 faults 4.0000 faults 4.0000 faults]"),
        "{all}"
    );
    assert!(lines[1].contains("time:   [4.0000 faults 4.0000 faults 4.0000 faults]"), "{all}");
    assert!(home.has("criterion-page-faults-process/in a pool/b/counters.json"));
    let more = home.bench("process", 15, "--baseline b");
    let lines = report(&more, "in a pool");
    assert!(lines.contains(&"Performance has regressed."), "{more}");
    home.gates("b --accept page-faults=1%", 1, &["in a pool, page-faults: 15, was 4"]);
}

/// One more page fault in each iteration: named, with its figure, in the log and by the gate.
fn a_planted_fault_is_found(home: &Home) {
    home.bench("counted", 4, "--save-baseline a");
    let kind = "criterion-page-faults";
    assert!(home.has(&format!("{kind}/fault_s/iter/a/counters.json")));
    assert!(!home.has(&format!("{kind}/fault_s/iter/base/counters.json")));
    let saved = fs::read(home.0.join(kind).join("fault_s/iter/a/counters.json")).unwrap();
    let again = "not compared: new is the run that was saved as a. Run the benchmark again";
    home.gates("a --accept page-faults=1%", 3, &[again]);
    home.bench("counted", 4, "--baseline a");
    home.gates(
        "a --accept page-faults=1%",
        0,
        &["Figures compared: 3. Regressions: 0. Improvements: 0."],
    );

    let printed = home.bench("counted", 5, "--baseline a");
    for benchmark in ["fault/s/iter", "fault/s/batched"] {
        let lines = report(&printed, benchmark);
        let at = lines.iter().position(|line| line.contains("minor-faults: [5.0")).expect(&printed);
        let change = lines[at + 1].strip_prefix("change: [+").expect(&printed);
        let bounds: Vec<f64> = change
            .trim_end_matches(']')
            .split(' ')
            .map(|bound| bound.trim_end_matches('%').parse().unwrap())
            .collect();
        assert!(bounds.iter().all(|percent| (percent - 25.0).abs() < 2.0), "{printed}");
        assert_eq!(lines[at + 2], "Performance has regressed.", "{printed}");
    }
    let lines = report(&printed, "a benchmark with a long name");
    let at = lines.iter().position(|line| line.contains("minor-faults: [3.0")).expect(&printed);
    // A page fault of the machine's own may separate the intervals.
    let same = ["No change in performance detected.", "Change within noise threshold."];
    assert!(same.contains(&lines[at + 2]), "{printed}");
    // The baseline is as it was.
    assert_eq!(saved, fs::read(home.0.join(kind).join("fault_s/iter/a/counters.json")).unwrap());
    let regression = [
        "fault/s/iter, page-faults: 5, was",
        "was 4 (",
        "+25.",
        ": regression",
        "Regressions: 2. Improvements: 0.",
    ];
    home.gates("a --accept page-faults=1%", 1, &regression);
    home.gates("a new --accept=page-faults=1%", 1, &regression);
    home.gates(
        "new a --accept page-faults=1%",
        0,
        &["fault/s/iter, page-faults: 4, was", ": improvement", "Regressions: 0. Improvements: 2."],
    );
    home.gates("a --accept page-faults=30", 0, &["Regressions: 0. Improvements: 0."]);
    let both = ["minor-faults: 5, was", "Figures compared: 6. Regressions: 2. Improvements: 0."];
    home.gates("a --accept page-faults=30% --accept minor-faults=1%", 1, &both);
    home.gates(
        "a --accept page-faults=1% --markdown",
        1,
        &[
            "**Regression.** Figures compared: 3.",
            "| `fault/s/iter` | `page-faults` | 4 |",
            "<details><summary>1 unchanged</summary>",
        ],
    );
    // Without that, the gate is on events that repeat.
    let nothing = "Nothing was compared between a and new.";
    home.gates(
        "a",
        3,
        &["more, not gated", "not compared: it has no instructions, branches", nothing],
    );
    // The same from a program.
    let gate = |growth| {
        let limits = Limits::new().accept("page-faults", growth);
        Gate::new("a", "new").home(home.criterion()).limits(limits)
    };
    assert_eq!(gate(0.01).compare().status(), Status::Regressed);
    assert_eq!(gate(0.3).compare().status(), Status::Passed);

    // Regressions come first: in the log and in the status, whatever else there is.
    let printed = home.bench("counted", 4, "--baseline a --quiet");
    assert!(!printed.contains("change:") && printed.contains("minor-faults: [4.0"), "{printed}");
    home.gates("a --accept page-faults=1%", 0, &[]);
}

/// One more instruction in each iteration, on machines with and without a PMU.
fn a_planted_instruction_is_found(home: &Home) {
    // The warm-up is too short for stepping, so other processes do all of it.
    let bench = |nops: usize, seconds: &str, arguments: &str| {
        let mut this = Command::new(env::current_exe().unwrap());
        this.env("RDPMC_STEP_SECONDS", seconds);
        let times = "--warm-up-time 0.002 --measurement-time 0.1";
        home.bench_by(this, "stepped", nops, &format!("{times} {arguments}"))
    };
    let counted = bench(4, "60", "--save-baseline a");
    let is_stepped = counted.contains("No counters: ");
    if let Some(why) = rdpmc_step::count(1_000, || ()).err().filter(|_| is_stepped) {
        return skips::skip("a_planted_instruction_is_found", &why.to_string());
    }
    bench(4, "60", "--save-baseline b");
    let more = bench(5, "60", "--save-baseline c");
    home.gates("a b", 0, &["Figures compared: 2. Regressions: 0. Improvements: 0."]);
    let event = if is_stepped { "stepped-instructions" } else { "instructions" };
    let lines = [
        &format!("nops/iter, {event}: "),
        &format!("nops/batched, {event}: "),
        ": regression",
        "Figures compared: 2. Regressions: 2. Improvements: 0.",
    ];
    home.gates("a c", 1, &lines);
    assert_eq!(counted.contains("stepped-instructions: ["), is_stepped, "{counted}");
    if !is_stepped {
        return assert!(!more.contains("stepped") && !more.contains("stepping"), "{more}");
    }
    let instead = ". Instructions are counted by single-stepping instead.";
    assert_eq!(counted.matches(instead).count(), 1, "{counted}");
    // To the last instruction.
    for benchmark in ["iter", "batched"] {
        let [few, many] = ["a", "c"].map(|baseline| {
            let directory = home.0.join("criterion-time/nops").join(benchmark).join(baseline);
            let text = fs::read_to_string(directory.join("counters.json")).unwrap();
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let all = json["counters"].as_array().unwrap();
            let stepped = all.iter().find(|it| it["event"] == "stepped-instructions").unwrap();
            let [low, high] = ["low", "high"].map(|name| stepped[name].as_f64().unwrap());
            assert_eq!(low, high, "{text}");
            low
        });
        assert_eq!(many - few, 1.0, "{benchmark}");
    }
    // Off, not enough time, and no warm-up. The gate does not pass without the figure.
    let off = bench(4, "0", "--save-baseline d");
    assert!(!off.contains("stepped") && !off.contains("stepping"), "{off}");
    home.gates("a d", 3, &["nops/iter, stepped-instructions: not in d"]);
    let short = bench(4, "0.0001", "--save-baseline d");
    let why = "Not counted by stepping: an iteration has more than the ";
    assert_eq!(short.matches(why).count(), 2, "{short}");
    let reason = "No stepped-instructions of nops/iter in d: an iteration has more than the ";
    home.gates("a d", 3, &["nops/iter, stepped-instructions: not in d", reason]);
    let quick = bench(4, "60", "--quick");
    let why = "Not counted by stepping: there is no warm-up to step with `--quick`.";
    assert_eq!(quick.matches(why).count(), 1, "{quick}");
    assert!(!quick.contains(instead), "{quick}");
    let tested = bench(4, "60", "--test");
    assert!(!tested.contains("stepp"), "{tested}");
}

/// No counters in one of the runs, another processor, a missing benchmark, damaged files.
fn what_cannot_be_compared_is_said(home: &Home) {
    let kind = "criterion-page-faults";
    home.gates("a", 3, &["Nothing is saved as a in ", "Nothing was compared between a and new."]);
    home.bench("counted", 4, "--save-baseline a");
    let nothing = ["Nothing is saved as b in ", "fault/s/iter: not in b"];
    home.gates("a b --accept page-faults=1%", 3, &nothing);
    // A machine without counters, and one that had none before.
    home.bench("time alone", 4, "--save-baseline b");
    let [lost, got] = [("a", "page-faults", "b", "time"), ("b", "time", "a", "page-faults")].map(
        |(old, was, new, is)| {
            format!("fault/s/iter: not compared: {old} was measured by {was}, and {new} by {is}")
        },
    );
    let why = "b has no counters: ";
    home.gates("a b --accept page-faults=1%", 3, &[&lost, why]);
    home.gates("b a --accept page-faults=1%", 3, &[&got, why]);
    home.gates("b b", 2, &["the earlier and the later results are the same"]);
    // The counts of before are outdated when the machine has none any more.
    home.bench("time alone", 4, "--save-baseline a");
    home.bench("counted", 4, "--save-baseline c");
    home.gates("a c --accept page-faults=1%", 3, &["a was measured by time, and c by page-faults"]);
    // By time, software events are counted as well.
    home.bench("time", 4, "--save-baseline d");
    home.bench("time", 5, "--save-baseline e");
    home.gates(
        "d e --accept page-faults=1%",
        1,
        &["Figures compared: 3. Regressions: 2. Improvements: 0."],
    );

    home.bench("counted", 5, "--save-baseline a");
    home.gates("c a --accept page-faults=1%", 1, &["Regressions: 2."]);
    // One benchmark less: a regression is more important than what is missing.
    for kind in [kind, "criterion-time"] {
        fs::remove_dir_all(home.0.join(kind).join("a benchmark with a long name/a")).unwrap();
    }
    let missing = "a benchmark with a long name: not in a";
    home.gates("c a --accept page-faults=1%", 1, &[missing]);
    home.gates("a c --accept page-faults=1%", 3, &[missing, "Regressions: 0. Improvements: 2."]);
    home.gates("a c --accept page-faults=1% --allow-missing", 0, &[missing]);
    home.bench("counted", 4, "--save-baseline a iter");
    home.bench("counted", 4, "--save-baseline a batched");
    let earlier = "fault/s/iter: not compared: a is of an earlier run than others.";
    home.gates(
        "c a --accept page-faults=1% --allow-missing",
        3,
        &[missing, earlier, "Regressions: 0."],
    );
    home.bench("counted", 4, "--save-baseline a");
    home.gates("c a --accept page-faults=1%", 0, &[]);
    home.gates("c a --accept dummy=1%", 0, &["Figures compared: 3."]);
    let unknown = "No benchmark has page-fault. The results have: ";
    home.gates("c a --accept page-fault=1%", 3, &[unknown]);
    home.gates(
        "c a --accept page-faults=1% --accept page-fault=1%",
        3,
        &[unknown, "Figures compared: 3."],
    );
    // A copy of the results is not another kind of results.
    let copied = Command::new("cp")
        .arg("-r")
        .args([home.0.join(kind), home.0.join("criterion-old")])
        .status();
    assert!(copied.unwrap().success());
    home.gates("c a --accept page-faults=1%", 0, &["Figures compared: 3."]);

    // Samples that are estimates.
    home.edit(kind, "c", "\"estimates\":0", "\"estimates\":1");
    let estimates = ": too unstable to compare";
    home.gates("c a --accept page-faults=1%", 3, &[estimates]);
    home.gates(
        "c a --accept page-faults=1% --allow-unstable",
        0,
        &[estimates, "Figures compared: 0.", "Accepted as unstable: 3."],
    );
    home.edit(kind, "c", "\"estimates\":1", "\"estimates\":0");
    // Another processor, in the log as well.
    home.edit(kind, "c", "\"processor\":\"", "\"processor\":\"a better ");
    home.gates(
        "c a --accept page-faults=1%",
        3,
        &["measured on different processors: a better ", ", and "],
    );
    let printed = home.bench("counted", 9, "--baseline c");
    let change = "change: not known, because baseline c was on another processor, a better ";
    assert_eq!(printed.matches(change).count(), 3, "{printed}");
    home.gates("c new --accept page-faults=1%", 3, &[]);
    home.edit(kind, "c", "\"processor\":\"", "\"cpu\":\"");
    home.gates("c a --accept page-faults=1%", 3, &["the processor of a result is not known"]);
    // Damaged results, and results that criterion alone has saved.
    home.edit(kind, "c", "\"counters\":", "\"counter\":");
    home.gates(
        "c a --accept page-faults=1%",
        3,
        &["is damaged, or of another version. Save it again"],
    );
    let printed = home.bench("counted", 4, "--baseline c");
    assert!(
        printed.contains("change: not known, because ") && printed.contains("is damaged"),
        "{printed}"
    );
    fs::remove_file(home.0.join(kind).join("fault_s/iter/c/counters.json")).unwrap();
    let printed = home.bench("counted", 4, "--baseline c iter");
    assert!(printed.contains("change: not known, because baseline c has no counters"), "{printed}");
    home.gates("c a --accept page-faults=1%", 3, &["fault/s/iter: no counters are saved in c"]);
    // Counts of an earlier run than criterion's samples: of other iterations, or with other values.
    home.bench("counted", 4, "--save-baseline c");
    let sample = home.0.join(kind).join("fault_s/iter/c/sample.json");
    let samples = fs::read_to_string(&sample).unwrap();
    for numbers in ["\"iters\":[", "\"times\":["] {
        assert!(samples.contains(numbers));
        fs::write(&sample, samples.replace(numbers, &format!("{numbers}1"))).unwrap();
        home.gates(
            "c a --accept page-faults=1%",
            3,
            &["fault/s/iter: the counters of c are of an earlier run"],
        );
    }
    fs::write(&sample, samples).unwrap();
    home.gates("c a --accept page-faults=1%", 0, &[]);
    // Results that the program has left in another directory.
    let left = home.0.join("criterion-minor-faults");
    let copied = Command::new("cp").arg("-r").args([&home.0.join(kind), &left]).status();
    assert!(copied.unwrap().success());
    for baseline in ["a", "c"] {
        let measured = ["\"measured\":\"page-faults\"", "\"measured\":\"minor-faults\""];
        home.edit("criterion-minor-faults", baseline, measured[0], measured[1]);
        home.edit("criterion-minor-faults", baseline, "\"run\":1", "\"run\":");
    }
    let later = "fault/s/iter: c was measured by minor-faults, and later by page-faults. Remove ";
    home.gates("c a --accept page-faults=1%", 3, &[later, "Figures compared: 3. Regressions: 0."]);
    fs::remove_dir_all(left).unwrap();
    home.gates("c a --accept page-faults=1%", 0, &[]);
    // An event that the baseline lacks.
    home.edit(kind, "a", "\"event\":\"minor-faults\"", "\"event\":\"major-faults\"");
    let printed = home.bench("counted", 4, "--baseline a iter");
    assert!(
        printed.contains("change: not known, because baseline a does not have this event"),
        "{printed}"
    );
    let lacking =
        ["fault/s/iter, minor-faults: not in a", "fault/s/iter, major-faults: not in new"];
    home.gates("a new --accept minor-faults=1%", 3, &lacking);
    home.gates("a new --accept page-faults=1% --accept major-faults=1%", 3, &lacking);
}

/// The lines on a terminal are those of a log, without what criterion overwrites.
fn a_terminal_shows_the_same(home: &Home) {
    let (mut terminal, inner) = terminal();
    let mut this = Command::new(env::current_exe().unwrap());
    this.args(["--bench", "--quick", "--noplot", "--color", "auto", "fault/s"]);
    this.env(EVENTS, "counted").env(FAULTS, "4").env("CRITERION_HOME", home.criterion());
    this.stdin(Stdio::null()).stdout(inner.try_clone().unwrap()).stderr(inner);
    let mut child = this.spawn().unwrap();
    drop(this); // its end of the terminal
    let mut printed = Vec::new();
    let mut piece = [0; 4096];
    // The end is an error on a terminal.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        printed.extend_from_slice(&piece[..length]);
    }
    assert!(child.wait().unwrap().success());
    let printed = String::from_utf8_lossy(&printed).replace("\r\n", "\n");
    // What remains of each line after the last time it is cleared.
    let shown: Vec<String> = printed
        .lines()
        .map(|line| {
            let start = line
                .rfind("\x1b[2K")
                .map_or(0, |at| at + 4)
                .max(line.rfind("\x1b[K").map_or(0, |at| at + 3));
            let mut plain = String::new();
            let mut rest = &line[start..];
            while let Some((before, behind)) = rest.split_once("\x1b[") {
                plain.push_str(before);
                rest = behind.split_once('m').map_or("", |(_, behind)| behind);
            }
            (plain + rest).trim_start_matches('\r').to_owned()
        })
        .collect();
    let at = shown
        .iter()
        .position(|line| line.contains("minor-faults: [4.0000 faults"))
        .expect(&printed);
    assert!(shown[at - 1].starts_with("Not counted: "), "{shown:#?}");
    assert!(
        shown[at + 2].starts_with("fault/s/iter            time:   [4.0000 faults"),
        "{shown:#?}"
    );
    assert!(!shown.iter().any(|line| line.contains("Analyzing")), "{shown:#?}");
}

/// Returns both ends of a new terminal.
fn terminal() -> (fs::File, fs::File) {
    let (mut outer, mut inner) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: the first two are written to, and the others may be null.
    let status =
        unsafe { libc::openpty(&raw mut outer, &raw mut inner, none, none.cast(), none.cast()) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors are new, and nothing else has them.
    unsafe { (fs::File::from_raw_fd(outer), fs::File::from_raw_fd(inner)) }
}

/// Benchmarks with one title, and benchmarks in directories that are also those of baselines.
fn namesakes_are_told_apart(home: &Home) {
    home.bench("namesakes", 4, "");
    let printed = home.bench("namesakes", 4, "--save-baseline x");
    assert_eq!(printed.matches("minor-faults: [").count(), 5, "{printed}");
    let printed = home.bench("namesakes", 6, "--baseline x");
    assert_eq!(printed.matches("minor-faults: [").count(), 5, "{printed}");
    assert_eq!(printed.matches("minor-faults: [6.0").count(), 3, "{printed}");
    let lines = [
        "a/b/c #2, page-faults: 6, was",
        "a/b/c, page-faults: 2, was",
        "d/base, page-faults: 6, was",
        "Figures compared: 5. Regressions: 3. Improvements: 0.",
    ];
    home.gates("x --accept page-faults=1%", 1, &lines);
}

/// Two programs have benchmarks of the same names. Each report says so, and no comparison passes.
fn programs_with_namesakes_are_noticed(home: &Home) {
    let programs = ["aa", "bb"].map(|name| {
        let path = home.0.join(name);
        fs::copy(env::current_exe().unwrap(), &path).unwrap();
        path
    });
    let run = |faults: [usize; 2], baseline: &str| {
        let mut faults = faults.into_iter();
        programs.each_ref().map(|path| {
            let arguments = format!("--noplot --save-baseline {baseline} iter");
            home.bench_by(Command::new(path), "counted", faults.next().unwrap(), &arguments)
        })
    };
    let [first, second] = run([4, 4], "main");
    let replaced = "/aa has a benchmark of the same name, whose results are replaced.";
    assert!(
        !first.contains("a benchmark of the same name") && second.contains(replaced),
        "{second}"
    );
    // One regresses, and its results are replaced by those of the other, which does not.
    let [first, second] = run([5, 4], "pr");
    assert!(
        first.contains(&replaced.replace("/aa", "/bb")) && second.contains(replaced),
        "{first}"
    );
    let why = "/bb and rdpmc-criterion/aa both have a benchmark of this name";
    home.gates("main pr --accept page-faults=1%", 3, &[why, "Nothing was compared"]);
    // Each alone, in a directory of its own.
    fs::remove_dir_all(home.0.join("criterion-page-faults")).unwrap();
    let [program, _] = &programs;
    for (baseline, faults) in [("main", 4), ("pr", 5)] {
        let arguments = format!("--noplot --save-baseline {baseline} iter");
        home.bench_by(Command::new(program), "counted", faults, &arguments);
    }
    home.gates("main pr --accept page-faults=1%", 1, &["Regressions: 1."]);
    // A benchmark that was moved to another program is not compared with what it was there.
    let arguments = "--noplot --baseline main iter";
    let moved = home.bench_by(Command::new(&programs[1]), "counted", 9, arguments);
    assert!(
        moved.contains(
            "change: not known, because baseline main was of another program, rdpmc-criterion/aa"
        ),
        "{moved}"
    );
}

/// No file can grow beyond a few kilobytes, as if the disk were full.
fn a_full_disk_is_noticed(home: &Home) {
    home.bench("counted", 4, "--noplot --save-baseline main iter");
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap());
    limited.args(["--bench", "--noplot", "--save-baseline", "pr", "iter"]);
    limited.env(EVENTS, "counted").env(FAULTS, "5").env("CRITERION_HOME", home.criterion());
    let output = limited.output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(printed.contains("is damaged. Free space if the disk is full"), "{printed}");
    // Nothing of before passes for a result.
    home.gates("main pr --accept page-faults=1%", 3, &[]);
    home.gates("main new --accept page-faults=1%", 3, &[]);
    let main = home.0.join("criterion-page-faults/fault_s/iter/main/counters.json");
    assert!(fs::read_to_string(main).unwrap().ends_with('}'));
}

/// Two processes that run the same benchmark in one directory at the same time print no counts. One alone does.
fn another_process_is_noticed(home: &Home) {
    const TIMES: &str = "--noplot --warm-up-time 1 --measurement-time 2 iter";
    let is_right = |printed: &str| printed.contains("minor-faults: [4.0");
    assert!(is_right(&home.bench("counted", 4, TIMES)));
    let bench = |faults: usize| {
        let mut this = Command::new(env::current_exe().unwrap());
        this.arg("--bench").args(TIMES.split_whitespace());
        this.env(EVENTS, "counted").env(FAULTS, faults.to_string());
        this.env("CRITERION_HOME", home.criterion()).stdout(Stdio::piped()).stderr(Stdio::null());
        this.spawn().unwrap()
    };
    // Two at the same time.
    for process in [4, 7].map(bench) {
        let output = process.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let is_noticed = printed.contains("counters: not known, because ")
            && printed.contains("un one `cargo bench` at a time");
        assert!(output.status.success() && is_noticed, "{printed}");
    }
    // One after them.
    assert!(is_right(&home.bench("counted", 4, TIMES)));
}

/// criterion's own features.
fn criterions_options_work(home: &Home) {
    let kind = "criterion-page-faults";
    // A list for other programs has nothing else in it.
    let listed = home.bench("counted", 4, "--list --format terse");
    let listed = listed.trim_start_matches("Gnuplot not found, using plotters backend\n");
    assert_eq!(
        listed,
        "fault/s/iter: benchmark\nfault/s/batched: benchmark\na benchmark with a long name: benchmark\n"
    );
    let tested = home.bench("time", 4, "--test");
    assert_eq!(tested.matches("Success").count(), 3, "{tested}");
    assert!(!tested.contains("faults: ["), "{tested}");
    assert!(!home.has(kind), "a test saves nothing");
    let profiled = home.bench("counted", 4, "--profile-time 1 iter");
    assert!(!profiled.contains("faults: ["), "{profiled}");
    // A filter, without plots, and with few samples.
    let printed = home.bench("counted", 4, "--quick --noplot batched");
    assert!(!printed.contains("fault/s/iter"), "{printed}");
    assert!(
        report(&printed, "fault/s/batched")
            .iter()
            .any(|line| line.contains("minor-faults: [4.0000 faults")),
        "{printed}"
    );
    assert!(home.has(&format!("{kind}/fault_s/batched/new/counters.json")));
    assert!(
        !home.has(&format!("{kind}/report"))
            && !home.has(&format!("{kind}/fault_s/batched/report"))
    );
    // criterion saves a single long sample as two.
    for _ in 0..2 {
        let printed = home.bench("slow", 4, "--quick --noplot --measurement-time 0.001 iter");
        let lines = report(&printed, "fault/s/iter");
        // One of some hundred runs had five faults. The cause is unknown: the kernel may add faults to a single iteration.
        let counted =
            lines.iter().find_map(|line| line.split_once("minor-faults: [")?.1.chars().next());
        assert!(counted.is_some_and(|faults| ('4'..='9').contains(&faults)), "{printed}");
        assert!(!printed.contains("damaged"), "{printed}");
    }
    fs::remove_dir_all(home.0.join(kind)).unwrap();
    home.bench("counted", 4, "--quick --noplot batched");
    // Nothing is saved, so the number of iterations is not known.
    let printed = home.bench("counted", 4, "--discard-baseline iter");
    let why = "counters: not known, because criterion saved no samples in ";
    assert!(report(&printed, "fault/s/iter").iter().any(|line| line.starts_with(why)), "{printed}");
    assert!(!home.has(&format!("{kind}/fault_s/iter/new")));
    // Results of before: the benchmark does not run, so nothing is counted.
    home.bench("counted", 4, "--save-baseline a iter");
    home.bench("counted", 5, "--save-baseline b iter");
    let printed = home.bench("counted", 9, "--load-baseline b --baseline a iter");
    assert!(printed.contains("time:   [5.0") && !printed.contains("minor-faults"), "{printed}");
    // A report for other programs has nothing in its lines.
    let printed = home.bench("counted", 4, "--output-format bencher iter");
    assert!(
        printed.contains("test fault/s/iter ... bench:           4 faults/iter (+/- 0)"),
        "{printed}"
    );
    assert!(!printed.contains("minor-faults"), "{printed}");
    assert!(home.has(&format!("{kind}/fault_s/iter/base/counters.json")));
    let printed = home.bench("counted", 4, "--verbose iter");
    assert!(printed.contains("med. abs. dev.") && printed.contains("minor-faults: ["), "{printed}");
}
