//! Two processes with different work, scraped by a Prometheus while they take intervals. `tests/prometheus/run` brings the Prometheus.
#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use rdpmc_spans::{Distribution, Interval, Settings, Storage, span};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of spans of each process.
const SPANS: [u64; 2] = [40_000, 2_000];
/// How often it is scraped at least while it works.
const SCRAPES: u64 = 10;
static SCRAPED: AtomicU64 = AtomicU64::new(0);
/// Their shortest and longest times in microseconds.
const TIMES: [[u64; 2]; 2] = [[2, 60], [100, 2_000]];
const PROCESS: &str = "RDPMC_SCRAPED_PROCESS";

#[test]
#[ignore = "it needs a Prometheus: tests/prometheus/run"]
fn two_processes() {
    let program = env::var_os("RDPMC_PROMETHEUS").unwrap(); // tests/prometheus/run sets it
    let room = env::temp_dir().join(format!("rdpmc-prometheus-{}", std::process::id()));
    fs::create_dir_all(&room).unwrap();
    let processes = [0, 1].map(start);
    let targets = processes.each_ref().map(|(_, address)| format!("'{address}'")).join(",");
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\nscrape_configs: \
         [{{job_name: spans, static_configs: [{{targets: [{targets}]}}]}}]\n"
    );
    fs::write(room.join("prometheus.yml"), config).unwrap();
    let log = fs::File::create(room.join("log")).unwrap();
    let prometheus = Command::new(program)
        .arg(format!("--config.file={}", room.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", room.join("data").display()))
        .arg(format!("--web.listen-address={server}"))
        .stderr(log)
        .spawn();
    let prometheus = Killed(prometheus.unwrap());

    let all: u64 = SPANS.iter().sum();
    let is_whole = |count: f64| count == all as f64;
    let counted = wait_for(server, "sum(rdpmc_span_seconds_count{span='work'})", is_whole, &room);
    println!("{counted} spans of two processes, {} expected", all);
    let scrapes = query(server, "sum(count_over_time(rdpmc_span_seconds_count{span='work'}[1h]))");
    // While the histograms grew, and the processes took intervals.
    for series in ["bucket", "count", "sum"] {
        let resets = query(server, &format!("sum(resets(rdpmc_span_seconds_{series}[1h]))"));
        let (resets, scrapes) = (resets.unwrap(), scrapes.unwrap());
        println!("{series}: {resets} times less than before, in {scrapes} samples");
        assert_eq!(resets, 0.0);
    }

    let values = processes.each_ref().map(|(_, address)| get(*address, "/values"));
    let mut values: Vec<(u64, u64)> =
        values.iter().flat_map(|text| text.lines()).map(read).collect();
    values.sort_unstable();
    assert_eq!(values.iter().map(|(_, count)| count).sum::<u64>(), all);
    for quantile in [0.01, 0.5, 0.9, 0.99, 0.999] {
        let rank = (quantile * all as f64).ceil() as u64;
        let mut below = 0;
        let at = values.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        let known = at.unwrap().0 as f64 / 1e9;
        let sum = "sum by (le) (rdpmc_span_seconds_bucket{span='work'})";
        let said = query(server, &format!("histogram_quantile({quantile}, {sum})")).unwrap();
        let difference = said / known - 1.0;
        println!(
            "{quantile}: {said:.9} s by Prometheus, {known:.9} s of all values: {:+.1} %",
            100.0 * difference
        );
        assert!(difference.abs() <= 0.25 + 1.0 / 128.0);
    }
    drop((prometheus, processes));
    fs::remove_dir_all(&room).unwrap();
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process, and returns where it answers.
fn start(number: usize) -> (Killed, SocketAddr) {
    let mut process = Command::new(env::current_exe().unwrap());
    process.args(["--ignored", "--exact", "a_process", "--nocapture"]);
    process.env(PROCESS, number.to_string()).stdout(Stdio::piped());
    let mut process = process.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().strip_prefix("at ")?.parse().ok());
    (Killed(process), address.unwrap())
}

#[test]
#[ignore = "the other test starts it"]
fn a_process() {
    let Some(number) = env::var(PROCESS).ok().and_then(|number| number.parse::<usize>().ok())
    else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    println!("\nat {}", listener.local_addr().unwrap());
    let mut spans = Settings::new().storage(Storage::Histograms).start().unwrap();
    let mut run = spans.take();
    let worker = std::thread::spawn(move || {
        let [least, most] = TIMES[number];
        for n in 0..SPANS[number] {
            while SCRAPED.load(Relaxed) < n * SCRAPES / SPANS[number] {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _span = span!("work");
            let time = Duration::from_micros(least + n * n * 31 % (most - least));
            let begun = Instant::now();
            while begun.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    });
    let mut taken = Instant::now();
    loop {
        if taken.elapsed() > Duration::from_millis(100) {
            taken = Instant::now();
            run.merge(&spans.take()).unwrap();
        }
        match listener.accept() {
            Ok((stream, _)) => answer(stream, &run, number, worker.is_finished()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Answers a request: by the one format or the other.
fn answer(mut stream: TcpStream, run: &Interval, number: usize, is_done: bool) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut request = [0; 4_096];
    let length = stream.read(&mut request).unwrap_or(0);
    let mut body = Vec::new();
    let kind = match (request[..length].starts_with(b"GET /values"), number) {
        (true, _) => {
            assert!(is_done);
            let mut all = Distribution::default();
            run.report().rows.iter().for_each(|row| all.merge(&row.distribution).unwrap());
            let mut text = String::new();
            all.iter()
                .for_each(|([_, highest], count)| writeln!(text, "{highest} {count}").unwrap());
            body = text.into_bytes();
            "text/plain"
        }
        (false, 0) => {
            SCRAPED.fetch_add(1, Relaxed);
            run.write_prometheus(&mut body).unwrap();
            "text/plain; version=0.0.4"
        }
        (false, _) => {
            SCRAPED.fetch_add(1, Relaxed);
            run.write_openmetrics(&mut body).unwrap();
            "application/openmetrics-text; version=1.0.0"
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn read(line: &str) -> (u64, u64) {
    let (value, count) = line.split_once(' ').unwrap();
    (value.parse().unwrap(), count.parse().unwrap())
}

/// Returns the body of an answer.
fn get(from: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    let asked = TcpStream::connect(from).and_then(|mut stream| {
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {from}\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    let body = asked.ok().and_then(|_| answer.split_once("\r\n\r\n"));
    body.map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Returns the value of a query. None if there is none yet.
fn query(server: SocketAddr, query: &str) -> Option<f64> {
    let escaped = query.bytes().fold(String::new(), |mut text, byte| {
        match byte.is_ascii_alphanumeric() {
            true => text.push(byte.into()),
            false => write!(text, "%{byte:02x}").unwrap(),
        }
        text
    });
    let answer = get(server, &format!("/api/v1/query?query={escaped}"));
    let answer: serde_json::Value = serde_json::from_str(&answer).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Waits until a query has such a value.
fn wait_for(server: SocketAddr, what: &str, is: impl Fn(f64) -> bool, room: &Path) -> f64 {
    let begun = Instant::now();
    loop {
        let value = query(server, what);
        match value {
            Some(value) if is(value) => return value,
            _ if begun.elapsed() > Duration::from_secs(120) => {
                let log = fs::read_to_string(room.join("log")).unwrap_or_default();
                panic!("{what}: {value:?}\n{log}");
            }
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}
