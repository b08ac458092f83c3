//! Records that carry more of the span that ends next.
// They have the site of their kind, the ticks at which the span began, and the word with its number. The span itself may be
// dropped, and another may have its place.

use crate::record::{
    Details, FLAGS_SHIFT, Faults, Flags, HEAD, Lost, Polls, Site, address, span_of,
};

/// The sites of these records, by kind. In one array, so that one comparison tells them from spans.
static SITES: [Site; 5] = [
    Site::new("the number of a span", file!(), line!()),
    Site::new("the lost time of a span", file!(), line!()),
    Site::new("the page faults of a span", file!(), line!()),
    Site::new("the polls of a future", file!(), line!()),
    Site::new("the spans that are not kept in a time", file!(), line!()),
];

/// Whether the first word of a record is that of a companion.
#[inline(always)]
pub(crate) fn is_companion(site: u64) -> bool {
    site.wrapping_sub(address(SITES.as_ptr())) < size_of_val(&SITES) as u64
}

/// In place of a time that is not known.
const UNKNOWN: u64 = u64::MAX;

/// What a companion carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Companion {
    Number(u64),
    Lost(Lost),
    Faults(Faults),
    Polls(Polls),
    NotKept(u64),
}

impl Companion {
    /// Returns those that carry what is known of a recorded time.
    pub(crate) fn of_time(details: Details) -> [Option<Companion>; 2] {
        [details.number.map(Companion::Number), details.polls.map(Companion::Polls)]
    }

    /// Returns the words of its record, for the span or lap with these first ticks and this last word of a head.
    #[inline(always)]
    pub(crate) fn head(self, start: u64, last: u64) -> [u64; HEAD] {
        let [number, lost_time, faults, polls, not_kept] = &SITES;
        let (site, [first, second]) = match self {
            Companion::Number(it) => (number, [0, it]),
            Companion::Lost(it) => {
                (lost_time, [it.runnable, it.off_cpu].map(|time| time.unwrap_or(UNKNOWN)))
            }
            Companion::Faults(it) => (faults, [it.major, it.minor]),
            Companion::Polls(it) => (polls, [it.busy, it.times]),
            Companion::NotKept(it) => (not_kept, [0, it]),
        };
        [address(site), first, second, start, identity(last)]
    }

    /// Returns the companion of these words. None if they are a span's or lap's.
    pub(crate) fn decode(words: &[u64]) -> Option<Companion> {
        let &[site, first, second, ..] = words.first_chunk::<HEAD>()?;
        if !is_companion(site) {
            return None;
        }
        match (site - address(SITES.as_ptr())) / size_of::<Site>() as u64 {
            0 => Some(Companion::Number(second)),
            1 => {
                let [runnable, off_cpu] =
                    [first, second].map(|time| (time != UNKNOWN).then_some(time));
                Some(Companion::Lost(Lost { off_cpu, runnable }))
            }
            2 => Some(Companion::Faults(Faults { minor: second, major: first })),
            3 => Some(Companion::Polls(Polls { busy: first, times: second })),
            _ => Some(Companion::NotKept(second)),
        }
    }
}

/// Returns what the last word of a span's or lap's head says of which it is: its number, and whether it is a lap.
fn identity(last: u64) -> u64 {
    span_of(last) | last & u64::from(Flags::LAP.bits()) << FLAGS_SHIFT
}

/// The companions of the span that ends next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    of: Option<(u64, u64)>,
    details: Details,
}

impl Pending {
    /// Adds what a companion's record carries.
    pub(crate) fn add(&mut self, companion: Companion, words: &[u64]) {
        let Some(&[_, _, _, start, last]) = words.first_chunk::<HEAD>() else { return };
        if self.of != Some((start, last)) {
            *self = Pending { of: Some((start, last)), details: Details::default() };
        }
        match companion {
            Companion::Number(number) => self.details.number = Some(number),
            Companion::Lost(lost) => self.details.lost = Some(lost),
            Companion::Faults(faults) => self.details.faults = Some(faults),
            Companion::Polls(polls) => self.details.polls = Some(polls),
            Companion::NotKept(spans) => self.details.not_kept = spans,
        }
    }

    /// Returns what is known of the span or lap with these first ticks and this last word of a head, and forgets it.
    pub(crate) fn take(&mut self, start: u64, last: u64) -> Details {
        let pending = std::mem::take(self);
        let is_of_this = pending.of == Some((start, identity(last)));
        if is_of_this { pending.details } else { Details::default() }
    }
}
