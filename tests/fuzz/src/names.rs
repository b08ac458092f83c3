//! Arbitrary text as the name of an event: on a machine without PMUs, and with the two PMUs of an Intel hybrid.
#![no_main]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use libfuzzer_sys::fuzz_target;
use rdpmc::internals::{PmuFiles, event_of, is_generic, terms_of};
use rdpmc::pmu::{Pmu, Pmus};
use std::sync::LazyLock;

/// The two PMUs of a hybrid, in memory.
static HYBRID: LazyLock<[Pmu; 2]> = LazyLock::new(|| {
    let text = include_str!("../../machines/intel-hybrid");
    ["cpu_core", "cpu_atom"].map(|name| {
        let mut texts = PmuFiles::default();
        for line in text.lines() {
            let Some((path, text)) = line.split_once(':') else { continue };
            let mut path = path.split('/');
            if path.next() != Some(name) {
                continue;
            }
            let text = text.to_owned();
            match (path.next(), path.next()) {
                (Some("type"), None) => texts.type_id = text,
                (Some("cpus"), None) => texts.cpus = Some(text),
                (Some("format"), Some(term)) => texts.format.push((term.into(), text)),
                (Some("events"), Some(event)) => texts.events.push((event.into(), text)),
                _ => {}
            }
        }
        texts.parse(name).expect("it is one")
    })
});

fuzz_target!(|text: &str| {
    // Files would only slow it down.
    let here = Pmus::from_dir("/nonexistent");
    if let Some(terms) = text.strip_prefix("cpu/") {
        for pmu in &*HYBRID {
            match event_of(pmu, terms) {
                Ok(event) => {
                    let again = terms_of(pmu, event);
                    // A generic event is written by its name instead.
                    if !is_generic(event) {
                        assert_eq!(event_of(pmu, &again), Ok(event), "{again}");
                    }
                }
                Err(error) => drop(error.to_string()),
            }
        }
        return;
    }
    match here.event(text) {
        Ok(event) => assert_eq!(here.event(&here.name_of(event)), Ok(event)),
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 8 * 1024, "{said}");
            assert!(!said.contains("is longer than") || text.len() > 1024);
        }
    }
});
