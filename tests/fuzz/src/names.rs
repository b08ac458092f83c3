//! Any text as the name of an event: of none of the machine's PMUs, and of two of one of Intel's hybrids.
#![no_main]
#![allow(dead_code, unreachable_pub, clippy::enum_variant_names)]

mod library;
use library::{error, event, field, modifiers, names, pmu, syntax, sys};

use error::NameError;
use libfuzzer_sys::fuzz_target;
use pmu::{Pmu, Pmus, Texts};
use std::sync::LazyLock;

/// Two PMUs of a hybrid, in memory.
static HYBRID: LazyLock<[Pmu; 2]> = LazyLock::new(|| {
    let text = include_str!("../../machines/intel-hybrid");
    ["cpu_core", "cpu_atom"].map(|name| {
        let mut texts = Texts::default();
        for line in text.lines() {
            let Some((path, text)) = line.split_once(':') else { continue };
            let mut path = path.split('/');
            if path.next() != Some(name) {
                continue;
            }
            let text = text.to_owned();
            match (path.next(), path.next()) {
                (Some("type"), None) => texts.number = text,
                (Some("cpus"), None) => texts.cpus = Some(text),
                (Some("format"), Some(term)) => texts.format.push((term.into(), text)),
                (Some("events"), Some(event)) => texts.events.push((event.into(), text)),
                _ => {}
            }
        }
        Pmu::understand(name, &texts).expect("it is one")
    })
});

fuzz_target!(|text: &str| {
    // Files would only make it slow.
    let here = Pmus::in_folder("/nonexistent");
    if let Some(terms) = text.strip_prefix("cpu/") {
        for pmu in &*HYBRID {
            match here.event_of(pmu, terms) {
                Ok(event) => {
                    let again = syntax::terms_of(pmu, &event);
                    // A generic one is written by its name instead.
                    if !event.is_generic() {
                        assert_eq!(here.event_of(pmu, &again), Ok(event), "{again}");
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
            assert!(!matches!(error, NameError::TooLong { .. }) || text.len() > 1024);
        }
    }
});
