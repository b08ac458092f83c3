//! A server with routes, whose requests are futures: their whole times by route, what they waited for, what Prometheus scrapes, and why the
//! slowest were slow.
//!
//! `cargo run --release -p rdpmc-tracing-tests --example server -- 127.0.0.1:8080` answers until it is stopped. Without an address, it sends itself
//! some requests. Lines that end in `// spans` are all that the measurement takes.

#![allow(clippy::disallowed_types, reason = "no child of a fork takes the lock")]

use axum::extract::{MatchedPath, Path, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Router, routing::get};
use rdpmc_spans::{Interval, Settings, Storage, TracingLayer, span}; // spans
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::{Instrument, info_span};
use tracing_subscriber::layer::SubscriberExt;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = TracingLayer::new().names_from("route").numbers_from("number").whole_times(); // spans
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?; // spans
    let settings = Settings::new().storage(Storage::Histograms).causes(); // spans
    let limit = Duration::from_millis(20);
    let mut spans = settings.slow("request: /orders/{id} (whole)", limit).start()?; // spans
    let run = Arc::new(Mutex::new(spans.take())); // spans

    let given = std::env::args().nth(1);
    let listener = TcpListener::bind(given.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    let metrics = run.clone();
    let app = Router::new()
        .route("/orders/{id}", get(order))
        .route("/prices", get(prices))
        .route("/metrics", get(move || async move { written(&metrics) })) // spans
        .route_layer(middleware::from_fn(traced));
    tokio::spawn(async move { axum::serve(listener, app).await });

    let clients = given.is_none().then(|| tokio::spawn(send_requests(address)));
    let mut clients = std::pin::pin!(async {
        match clients {
            Some(clients) => clients.await.unwrap_or_else(|gone| Err(io::Error::other(gone))),
            None => std::future::pending().await,
        }
    });
    loop {
        let second = tokio::time::sleep(Duration::from_secs(1));
        let is_over = tokio::select! {
            sent = &mut clients => sent.map(|()| true)?,
            () = second => false,
        };
        let interval = spans.take(); // spans
        println!("{}", interval.line("request: /orders/{id} (whole)")); // spans
        run.lock().map_err(|_| "a thread has panicked")?.merge(&interval)?; // spans
        if is_over {
            break;
        }
    }
    print!("{}", run.lock().map_err(|_| "a thread has panicked")?.report()); // spans
    let scraped = request(address, "/metrics").await?;
    let is_count = |line: &&str| line.starts_with("rdpmc_span_seconds_count");
    scraped.lines().filter(is_count).for_each(|line| println!("{line}"));
    Ok(())
}

/// Gives each request a span with its route and a number.
async fn traced(request: Request, next: Next) -> Response {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let span = info_span!("request", route = route.unwrap_or_default(), number); // spans
    next.run(request).instrument(span).await // spans
}

/// Reads an order from a database, and writes it. One order in fifty is locked by somebody else for 30 ms.
async fn order(Path(id): Path<u64>) -> String {
    tokio::time::sleep(Duration::from_millis(if id % 50 == 49 { 30 } else { 1 })).await;
    let _span = span!("write order"); // spans
    (0..20).map(|line| format!("line {line} of order {id}\n")).collect()
}

async fn prices() -> String {
    let _span = span!("prices"); // spans
    format!("{}\n", (0..20_000_u64).fold(0, |sum, price| sum ^ black_box(price)))
}

fn written(run: &Mutex<Interval>) -> String {
    let mut metrics = Vec::new();
    let written = run.lock().map(|run| run.write_prometheus(&mut metrics)); // spans
    match written {
        Ok(Ok(())) => String::from_utf8_lossy(&metrics).into_owned(),
        _ => String::new(),
    }
}

/// Sends requests by four clients.
async fn send_requests(address: SocketAddr) -> io::Result<()> {
    let clients: Vec<_> = (0..4)
        .map(|client| {
            tokio::spawn(async move {
                for id in 0..250 {
                    request(address, &format!("/orders/{}", client * 250 + id)).await?;
                    request(address, "/prices").await?;
                }
                Ok::<(), io::Error>(())
            })
        })
        .collect();
    for client in clients {
        client.await.map_err(io::Error::other)??;
    }
    Ok(())
}

/// Returns what the server answers.
async fn request(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
