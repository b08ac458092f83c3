//! Reports what this machine lets this process count, and the remedies for what it does not.
//!
//! Paste the output into a bug report. The program `rdpmc-doctor` prints the same.
//!
//! `cargo run --example doctor`, or `cargo run --example doctor -- --json` for programs

fn main() {
    // Lets the report read a counter, to check whether the CPU agrees with the settings.
    let contained = rdpmc::contain_faults();
    let report = rdpmc_doctor::diagnose();
    if std::env::args().any(|argument| argument == "--json") {
        println!("{}", report.to_json());
        return;
    }
    println!("{report}");
    if let Err(why) = contained {
        println!("- faults are not contained: {why}");
    }
}
