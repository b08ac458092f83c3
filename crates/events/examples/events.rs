//! Finds events by words, and counts one by its vendor's name.
//!
//! `cargo run --release -p rdpmc-events --example events -- tlb miss`

use rdpmc::Counter;
use rdpmc_events::{Table, event, search};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words = if words.is_empty() { "retired instructions".to_owned() } else { words.join(" ") };
    match Table::local() {
        Ok(tables) => tables.iter().for_each(|table| println!("This CPU has the table {table}.")),
        Err(why) => println!("{why}"),
    }
    for known in search(&words)? {
        println!("{:40} {}", known.name, known.description.unwrap_or_default());
    }

    // The same work, counted by the names of three vendors: one of them is this CPU's.
    for name in ["inst_retired.any", "ex_ret_instr", "inst_retired"] {
        let counted = event(name).map_err(|why| why.to_string()).and_then(|event| {
            let counter = Counter::open(event).map_err(|why| why.to_string())?;
            let before = counter.read().map_err(|why| why.to_string())?;
            let sum: u64 = (0..std::hint::black_box(1_000)).sum();
            let after = counter.read().map_err(|why| why.to_string())?;
            Ok((sum, after - before))
        });
        match counted {
            Ok((_, count)) => println!("{name}: {count}"),
            Err(why) => println!("{name}: {why}"),
        }
    }
    Ok(())
}
