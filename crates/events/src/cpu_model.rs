//! The numbers of this machine's x86-64 CPU.

use crate::cores::text;
use std::path::Path;

/// The vendor, family and model. For `rdpmc-doctor`: it may change with each minor version.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    pub vendor: String,
    pub family: u32,
    pub model: u32,
}

impl Processor {
    /// None on other architectures, and if `/proc/cpuinfo` cannot be read.
    pub fn of_this_machine() -> Option<Processor> {
        Processor::parse(&text(Path::new("/proc/cpuinfo"))?)
    }

    fn parse(cpuinfo: &str) -> Option<Processor> {
        let field = |name: &str| {
            let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = fields.into_iter().find(|(key, _)| key.trim() == name)?;
            Some(value.trim())
        };
        let number = |name: &str| field(name)?.parse().ok();
        Some(Processor {
            vendor: field("vendor_id")?.to_owned(),
            family: number("cpu family")?,
            model: number("model")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cpuinfo() {
        let of = Processor::parse;
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: x: 7\n";
        let genoa = Processor { vendor: "AuthenticAMD".into(), family: 25, model: 17 };
        assert_eq!(of(text), Some(genoa));
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), None);
        assert_eq!([of(""), of("vendor_id\t: x\ncpu family\t: ?\nmodel\t: 1")], [None, None]);
    }
}
