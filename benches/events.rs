//! The time of a lookup of a vendor's event name. `cargo bench -p rdpmc-benches --bench events`
#![allow(missing_docs)]

use rdpmc_bench::Bench;
use rdpmc_events::Table;
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench::new()?;
    let tables: Vec<Table> = Table::all().collect();
    let names = [
        ("skylakex", "mem_load_retired.l3_miss"),
        ("cascadelakex", "offcore_response.all_data_rd.any_response"),
        ("zen4", "ex_ret_instr"),
        ("neoverse_n1", "inst_retired"),
        ("skylakex", "no_such_event"),
    ];
    println!(
        "{} tables, {} names",
        tables.len(),
        tables.iter().map(|table| table.events().len()).sum::<usize>()
    );
    for (table, name) in names {
        let found = Table::named(table).ok_or(table)?;
        let label = format!("{table}::{name}");
        if name == "no_such_event" {
            bench.row(&label).latency(move || black_box(&found).event(black_box(name)).is_err());
        } else {
            bench.row(&label).latency(move || black_box(&found).event(black_box(name)).is_ok());
        }
    }
    println!("{}", bench.run());
    Ok(())
}
