//! Arbitrary texts as the files of a PMU: lines of `PATH:TEXT`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdpmc::Event;
use rdpmc::internals::{Field, PmuFiles, event_of, is_generic, parse_cpus, terms_of};

fuzz_target!(|text: &str| {
    let mut texts = PmuFiles { type_id: "7".into(), ..PmuFiles::default() };
    for line in text.lines() {
        // Each line alone is also parsed as a field, and as a list of CPUs.
        if let Some(field) = Field::parse(line) {
            let most = if field.width() < 64 { (1 << field.width()) - 1 } else { u64::MAX };
            let words = field.put(most, [0; 5]).expect("that many bits are there");
            assert_eq!(field.take(&words), Some(most));
            assert_eq!(field.put(0, words), Some([0; 5]));
            assert!(field.width() >= 64 || field.put(most + 1, words).is_none());
        }
        if let Some(processors) = parse_cpus(line) {
            assert_eq!(parse_cpus(&processors.to_string()), Some(processors));
        }
        let Some((path, text)) = line.split_once(':') else { continue };
        let text = text.to_owned();
        match path.split_once('/') {
            None if path == "cpus" => texts.cpus = Some(text),
            None if path == "cpumask" => texts.cpumask = Some(text),
            None => texts.format.push((path.into(), text)),
            Some((_, event)) => texts.events.push((event.into(), text)),
        }
    }
    // A directory has one file of a name.
    for files in [&mut texts.format, &mut texts.events] {
        files.sort();
        files.dedup_by(|one, other| one.0 == other.0);
    }
    let pmu = texts.parse("fuzzed").expect("it has a number");
    let events: Vec<String> = pmu.events().iter().map(|event| event.name.clone()).collect();
    let terms: Vec<String> = pmu.terms().map(|(term, bits)| format!("{term}={bits}")).collect();
    for name in events.into_iter().chain(terms) {
        if let Ok(event) = event_of(&pmu, &name) {
            let again = terms_of(&pmu, event);
            if !is_generic(event) {
                assert_eq!(event_of(&pmu, &again), Ok(event), "{name}: {again}");
            }
        }
    }
    for config in [0, 1, u64::MAX] {
        let event = Event::of_pmu(7, config).with_config1(config >> 8);
        let again = terms_of(&pmu, event);
        assert_eq!(event_of(&pmu, &again), Ok(event), "{again}");
    }
});
