//! Says what this machine lets this process count, and what to do about what it does not. Paste what it
//! prints into a bug report.
//!
//! `cargo run --example doctor`, or `cargo run --example doctor -- --json` for programs

fn main() {
    // So that a counter may be read to see whether the processor agrees with the settings.
    let contained = rdpmc::contain_faults();
    let report = rdpmc::diagnose();
    if std::env::args().any(|argument| argument == "--json") {
        println!("{}", report.to_json());
        return;
    }
    println!("{report}");
    if let Err(why) = contained {
        println!("- faults are not contained: {why}");
    }
}
