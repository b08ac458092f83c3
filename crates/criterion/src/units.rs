//! Units of counts and rates, with the prefixes that they are printed with.

use crate::stand_ins::NOTHING;
use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use rdpmc::Event;

/// The unit of a value, and how it is printed. criterion takes `&'static str` only, so all possible names are listed
/// here.
#[derive(Debug)]
pub(crate) enum Unit {
    /// Nanoseconds, as criterion itself prints them.
    Time,
    Count(&'static Labels),
}

#[derive(Debug)]
pub(crate) struct Labels {
    /// The names: in a million iterations, in 1,000 iterations, and by prefix: none, k, M, G, T.
    values: [&'static str; 7],
    /// The names by kind of throughput. The numerator has the prefix G, M, K or none. The denominator is 1, 1,000, a million
    /// or a billion.
    rates: [[&'static str; 7]; 4],
}

macro_rules! names {
    ($one:literal, $many:literal) => {
        Unit::Count(&Labels {
            values: [
                concat!($many, "/million iter"),
                concat!($many, "/1000 iter"),
                $many,
                concat!("k", $many),
                concat!("M", $many),
                concat!("G", $many),
                concat!("T", $many),
            ],
            rates: [
                names!(@rates $one, $many, "Gb", "Mb", "Kb", "b"),
                names!(@rates $one, $many, "GiB", "MiB", "KiB", "B"),
                names!(@rates $one, $many, "GB", "MB", "KB", "B"),
                names!(@rates $one, $many, "Gelem", "Melem", "Kelem", "elem"),
            ],
        })
    };
    (@rates $one:literal, $many:literal, $giga:literal, $mega:literal, $kilo:literal, $plain:literal) => {
        [
            concat!($giga, "/", $one),
            concat!($mega, "/", $one),
            concat!($kilo, "/", $one),
            concat!($plain, "/", $one),
            concat!($plain, "/1000 ", $many),
            concat!($plain, "/million ", $many),
            concat!($plain, "/billion ", $many),
        ]
    };
}

impl Unit {
    /// Returns the unit of this event.
    pub(crate) fn for_event(event: Event) -> &'static Unit {
        match event.unit() {
            "ns" => &Unit::Time,
            "cycles" => &names!("cycle", "cycles"),
            "instructions" => &names!("instruction", "instructions"),
            "branches" => &names!("branch", "branches"),
            "accesses" => &names!("access", "accesses"),
            "misses" => &names!("miss", "misses"),
            "faults" => &names!("fault", "faults"),
            "switches" => &names!("switch", "switches"),
            "migrations" => &names!("migration", "migrations"),
            _ => &names!("event", "events"),
        }
    }

    /// Returns a whole number with the unit, without a prefix.
    pub(crate) fn plain(&self, value: f64) -> String {
        format!("{value} {}", self.name())
    }

    /// Returns the name of the unit without a prefix.
    pub(crate) fn name(&self) -> &'static str {
        self.scale_for_machines(&mut [])
    }
}

/// Divides `values` by `divisor`.
fn divide(values: &mut [f64], divisor: f64) {
    for value in values {
        *value /= divisor;
    }
}

impl ValueFormatter for Unit {
    /// Leaves values next to 0 as they are, which prints them as 0. criterion's logarithmic plot does not terminate
    /// at a value of 0.
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let names = match self {
            Unit::Time => return WallTime.formatter().scale_values(typical, values),
            Unit::Count(names) => names,
        };
        let [per_million, per_thousand, plain, kilo, mega, giga, tera] = names.values;
        // criterion prints values below 1 with four decimals.
        let (divisor, name) = match typical.abs() {
            // All four decimals of it are 0: a stand-in, or the deviation of equal samples.
            nothing if nothing < 5e-11 => (1.0, plain),
            few if few < 1e-5 => (1e-6, per_million),
            few if few < 0.01 => (1e-3, per_thousand),
            some if some < 1e3 => (1.0, plain),
            many if many < 1e6 => (1e3, kilo),
            many if many < 1e9 => (1e6, mega),
            many if many < 1e12 => (1e9, giga),
            _ => (1e12, tera),
        };
        divide(values, divisor);
        name
    }

    /// Converts counts to rates: throughput per count. A higher rate is better, and a higher count has a lower rate.
    /// criterion relies on both when it orders the bounds and the change.
    fn scale_throughputs(
        &self,
        typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        // A count of 0 has a very large rate, because a plot of an infinite one does not terminate.
        for value in values.iter_mut() {
            *value = value.max(NOTHING);
        }
        let typical = typical.max(NOTHING);
        let names = match self {
            Unit::Time => {
                let time = WallTime;
                return time.formatter().scale_throughputs(typical, throughput, values);
            }
            Unit::Count(names) => names,
        };
        let [bits, binary, decimal, elements] = names.rates;
        let (amount, thousand, names) = match *throughput {
            Throughput::Bits(amount) => (amount, 1000.0, bits),
            Throughput::Bytes(amount) => (amount, 1024.0, binary),
            Throughput::BytesDecimal(amount) => (amount, 1000.0, decimal),
            Throughput::Elements(amount) => (amount, 1000.0, elements),
            // criterion asks for the bytes separately.
            Throughput::ElementsAndBytes { elements: amount, .. } => (amount, 1000.0, elements),
        };
        let rate = |count: f64| amount as f64 / count;
        let [giga, mega, kilo, plain, per_kilo, per_mega, per_giga] = names;
        let (divisor, name) = match rate(typical) {
            0.0 => (1.0, plain),
            few if few < 1e-7 => (1e-9, per_giga),
            few if few < 1e-4 => (1e-6, per_mega),
            few if few < 0.1 => (1e-3, per_kilo),
            some if some < thousand => (1.0, plain),
            many if many < thousand * thousand => (thousand, kilo),
            many if many < thousand * thousand * thousand => (thousand * thousand, mega),
            _ => (thousand * thousand * thousand, giga),
        };
        for value in values.iter_mut() {
            *value = rate(*value);
        }
        divide(values, divisor);
        name
    }

    fn scale_for_machines(&self, values: &mut [f64]) -> &'static str {
        for value in values {
            // Stand-ins for a sample of 0 become 0 again.
            if value.abs() <= NOTHING {
                *value = 0.0;
            }
        }
        match self {
            Unit::Time => WallTime.formatter().scale_for_machines(&mut []),
            Unit::Count(Labels { values: [_, _, plain, ..], .. }) => plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(event: Event, value: f64) -> String {
        Unit::for_event(event).format_value(value).trim().to_owned()
    }

    #[test]
    fn every_event_has_its_own_unit() {
        let units = [
            (Event::CYCLES, "cycles"),
            (Event::INSTRUCTIONS, "instructions"),
            (Event::CACHE_REFERENCES, "accesses"),
            (Event::CACHE_MISSES, "misses"),
            (Event::BRANCHES, "branches"),
            (Event::BRANCH_MISSES, "misses"),
            (Event::BUS_CYCLES, "cycles"),
            (Event::STALLED_CYCLES_FRONTEND, "cycles"),
            (Event::STALLED_CYCLES_BACKEND, "cycles"),
            (Event::REF_CYCLES, "cycles"),
            (Event::CPU_CLOCK, "ns"),
            (Event::TASK_CLOCK, "ns"),
            (Event::PAGE_FAULTS, "faults"),
            (Event::MINOR_FAULTS, "faults"),
            (Event::MAJOR_FAULTS, "faults"),
            (Event::CONTEXT_SWITCHES, "switches"),
            (Event::CPU_MIGRATIONS, "migrations"),
            (Event::ALIGNMENT_FAULTS, "faults"),
            (Event::EMULATION_FAULTS, "faults"),
            (Event::DUMMY, "events"),
            (Event::CGROUP_SWITCHES, "switches"),
            (Event::L1D_LOAD_MISSES, "misses"),
            (Event::L1D_LOADS, "accesses"),
            (Event::raw(0x01c2), "events"),
            (Event::of_pmu(8, 3), "events"),
            // On one of several core types.
            (Event::of_pmu(0, 4 << 32 | 1), "instructions"),
            (Event::of_pmu(3, 4 << 32 | 0x1_00_02), "misses"),
        ];
        for (event, unit) in units {
            let mut values = [7.0, 0.0, 1e9];
            assert_eq!(Unit::for_event(event).scale_for_machines(&mut values), unit, "{event}");
            assert_eq!(values, [7.0, 0.0, 1e9], "{event}");
            assert_eq!(Unit::for_event(event).name(), unit, "{event}");
            assert_eq!(printed(event, 7.0), format!("7.0000 {unit}"), "{event}");
        }
    }

    #[test]
    fn counts_have_readable_units() {
        for (value, text) in [
            (0.0, "0.0000 cycles"),
            (NOTHING, "0.0000 cycles"),
            (4e-11, "0.0000 cycles"),
            (3e-10, "0.0003 cycles/million iter"),
            (2e-7, "0.2000 cycles/million iter"),
            (21.592e-6, "0.0216 cycles/1000 iter"),
            (0.001_23, "1.2300 cycles/1000 iter"),
            (0.0123, "0.0123 cycles"),
            (0.5, "0.5000 cycles"),
            (1.0, "1.0000 cycles"),
            (999.0, "999.00 cycles"),
            (1_000.0, "1.0000 kcycles"),
            (1.5e6, "1.5000 Mcycles"),
            (2.5e9, "2.5000 Gcycles"),
            (3e12, "3.0000 Tcycles"),
            (3e16, "30000 Tcycles"),
        ] {
            assert_eq!(printed(Event::CYCLES, value), text);
        }
        assert_eq!(printed(Event::TASK_CLOCK, 0.5), "500.00 ps");
        assert_eq!(printed(Event::TASK_CLOCK, 1_500.0), "1.5000 µs");
        assert_eq!(printed(Event::TASK_CLOCK, NOTHING), "0.0000 ps");
        // All values have one unit, which the typical value determines.
        let mut values = [1.0, 2_000.0];
        assert_eq!(Unit::for_event(Event::CYCLES).scale_values(5e3, &mut values), "kcycles");
        assert_eq!(values, [0.001, 2.0]);
    }

    #[test]
    fn rates_are_so_much_per_count() {
        let both = Throughput::ElementsAndBytes { elements: 12, bytes: 16 };
        for (throughput, count, text) in [
            (Throughput::Bits(8), 4.0, "2.0000 b/instruction"),
            (Throughput::Bits(8_000_000), 4.0, "2.0000 Mb/instruction"),
            (Throughput::Bytes(1_000), 1.0, "1000.0 B/instruction"),
            (Throughput::Bytes(1_024), 1.0, "1.0000 KiB/instruction"),
            (Throughput::Bytes(1 << 20), 0.5, "2.0000 MiB/instruction"),
            (Throughput::Bytes(3 << 30), 1.0, "3.0000 GiB/instruction"),
            (Throughput::BytesDecimal(1_024), 1.0, "1.0240 KB/instruction"),
            (Throughput::BytesDecimal(5_000_000_000), 2.0, "2.5000 GB/instruction"),
            (Throughput::Elements(1), 2.0, "0.5000 elem/instruction"),
            (Throughput::Elements(1), 2_500.0, "0.4000 elem/1000 instructions"),
            (Throughput::Elements(1), 16_000.0, "62.500 elem/million instructions"),
            (Throughput::Elements(1), 4e7, "25.000 elem/billion instructions"),
            (Throughput::Elements(0), 4.0, "0.0000 elem/instruction"),
            (Throughput::Elements(0), 0.0, "0.0000 elem/instruction"),
            (both, 4.0, "3.0000 elem/instruction"),
        ] {
            let rate = Unit::for_event(Event::INSTRUCTIONS).format_throughput(&throughput, count);
            assert_eq!(rate.trim(), text, "{throughput:?} in {count}");
        }
        let rate = Unit::for_event(Event::CYCLES).format_throughput(&Throughput::Bytes(64), 32.0);
        assert_eq!(rate.trim(), "2.0000 B/cycle");
        let rate =
            Unit::for_event(Event::CPU_CLOCK).format_throughput(&Throughput::Bytes(2_048), 1e9);
        assert_eq!(rate.trim(), "2.0000 KiB/s");
        // A higher count has a lower rate, and all rates have one unit.
        let mut counts = [1.0, 2.0, 4.0];
        let unit = Unit::for_event(Event::CYCLES);
        let name = unit.scale_throughputs(2.0, &Throughput::Bytes(4_096), &mut counts);
        assert_eq!((name, counts), ("KiB/cycle", [4.0, 2.0, 1.0]));
    }

    #[test]
    fn nothing_is_never_no_number() {
        let throughputs =
            [Throughput::Bits(0), Throughput::Bytes(u64::MAX), Throughput::Elements(1)];
        for unit in [Unit::for_event(Event::CYCLES), &Unit::Time] {
            for typical in [0.0, NOTHING, f64::MIN_POSITIVE, 1.0, 1e300] {
                for throughput in &throughputs {
                    let mut values = [0.0, NOTHING, 1.0, 1e300];
                    unit.scale_throughputs(typical, throughput, &mut values);
                    assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
                }
                let mut values = [0.0, NOTHING, 1.0, 1e300];
                unit.scale_values(typical, &mut values);
                assert!(values.iter().all(|value| !value.is_nan()), "{values:?}");
            }
        }
    }
}
