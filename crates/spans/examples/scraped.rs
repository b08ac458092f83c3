//! A server whose spans Prometheus scrapes, while the program takes an interval each second.
//!
//! `cargo run --release -p rdpmc-spans --example scraped -- 127.0.0.1:9464` answers until it is stopped. Without an address, it scrapes itself
//! after two seconds and prints the histogram's last lines. Lines that end in `// spans` are all that the measurement takes.

#![allow(clippy::disallowed_types, reason = "no child of a fork takes the lock")]

use rdpmc_spans::{Settings, Storage, span}; // spans
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let listener = TcpListener::bind(given.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let mut spans = Settings::new().storage(Storage::Histograms).slowest(1).start()?; // spans
    let run = Mutex::new(spans.take()); // spans
    thread::Builder::new().name("requests".into()).spawn(serve)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming() {
                let mut metrics = Vec::new();
                let run = run.lock().map(|run| run.clone()); // spans
                let written = run.map(|run| run.write_prometheus(&mut metrics)); // spans
                if let (Ok(Ok(())), Ok(stream)) = (written, stream) {
                    let _ = answer(stream, &metrics); // a scraper that has gone is no error
                }
            }
        });
        for second in 1.. {
            thread::sleep(Duration::from_secs(1));
            let interval = spans.take(); // spans
            println!("{}", interval.line("request")); // spans
            run.lock().map_err(|_| "a thread has panicked")?.merge(&interval)?; // spans
            if second == 2 && given.is_none() {
                let metrics = scrape(address)?;
                let lines = metrics.lines().filter(|line| line.starts_with("rdpmc_span_seconds"));
                let last: Vec<&str> = lines.collect();
                last.iter().rev().take(3).rev().for_each(|line| println!("{line}"));
                std::process::exit(0); // the server has no other end
            }
        }
        Ok(())
    })
}

/// Serves requests that take 50 to 450 microseconds.
fn serve() {
    for number in 0_u64.. {
        let _request = span!("request", number); // spans
        thread::sleep(Duration::from_micros(50 + number * 7919 % 400));
    }
}

/// Answers a request of HTTP, whatever it asks for.
fn answer(mut stream: TcpStream, metrics: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = stream.read(&mut [0; 4_096])?;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n")?;
    write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", metrics.len())?;
    stream.write_all(metrics)
}

fn scrape(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
