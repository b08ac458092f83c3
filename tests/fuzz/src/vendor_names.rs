//! Arbitrary text as the name of a vendor's event, in a table of each vendor.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdpmc::Event;
use rdpmc_events::{EventError, Table};

fuzz_target!(|text: &str| {
    for name in ["skylake", "zen4", "neoverse_n1"] {
        let table = Table::named(name).expect("all vendors are compiled in");
        match table.event(text) {
            // A printed event parses to the same event.
            Ok(event) => assert_eq!(event.to_string().parse::<Event>(), Ok(event), "{text}"),
            Err(why) => {
                let said = why.to_string();
                assert!(said.len() < 8 * 1024, "{said}");
                if let EventError::UnknownEvent { nearest, .. } = why {
                    for near in nearest {
                        assert!(table.event(&near).is_ok(), "{text}: {near}");
                    }
                }
            }
        }
    }
});
