//! What the samples of a counter say about it: arithmetic, and nothing of the machine.
#![forbid(unsafe_code)]

use crate::text::Thousands;
use std::fmt;

/// The counts of the samples of one counter, for each length of the work.
pub(crate) type Lengths = [Vec<u64>; 3];

/// What a test found out about a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It counted each event of the work exactly once.
    Exact,
    /// Its count is possible, and no exact one is known (cycles).
    Plausible,
    /// It counted a multiple or a fraction.
    #[non_exhaustive]
    Off {
        /// The number of events of the work.
        expected: u64,
        /// The number that it counted.
        counted: u64,
    },
    /// It counted each event once, plus or minus a constant in each sample that had events.
    #[non_exhaustive]
    OffByConstant {
        /// The constant.
        more: i64,
    },
    /// It stood still, at least in one sample.
    CountsNothing,
    /// It jumped, or counted what no CPU can do.
    Implausible,
    /// The samples differ too much.
    TooNoisy,
    /// The kernel reads it right, but user space reads nothing or a different number.
    WrongInUserSpace,
}

impl Verdict {
    /// Whether the counter is as it should be.
    pub fn is_right(&self) -> bool {
        matches!(self, Verdict::Exact | Verdict::Plausible)
    }

    /// Whether the counter is wrong, as far as samples tell.
    pub fn is_wrong(&self) -> bool {
        !self.is_right() && *self != Verdict::TooNoisy
    }

    /// Whether the counter counts at all.
    pub fn counts(&self) -> bool {
        *self != Verdict::CountsNothing
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Exact => f.write_str("exact"),
            Verdict::Plausible => f.write_str("plausible"),
            Verdict::Off { expected, counted } => write!(
                f,
                "off (counts {} of {})",
                Thousands((*counted).into()),
                Thousands((*expected).into())
            ),
            Verdict::OffByConstant { more } => write!(f, "off by a constant {more:+}"),
            Verdict::CountsNothing => f.write_str("counts nothing"),
            Verdict::Implausible => f.write_str("implausible"),
            Verdict::TooNoisy => f.write_str("too noisy"),
            Verdict::WrongInUserSpace => f.write_str("wrong in user space"),
        }
    }
}

/// A read in user space between two of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserRead {
    Count {
        before: u64,
        user: u64,
        after: u64,
    },
    /// None, and the page names no register.
    NotOffered,
    /// None although the page names a register, or the kernel could not read the counter.
    None,
}

/// Whether reads in user space agree with the kernel's. A count outside of the kernel's two is wrong, whatever the others
/// are: no interruption of the thread explains it. One without a count may have been interrupted.
pub(crate) fn agree(reads: impl Iterator<Item = UserRead>) -> bool {
    let mut has_agreed = false;
    for read in reads {
        match read {
            UserRead::Count { before, user, after } if !(before..=after).contains(&user) => {
                return false;
            }
            UserRead::Count { .. } | UserRead::NotOffered => has_agreed = true,
            UserRead::None => {}
        }
    }
    has_agreed
}

/// A count that differs from the minimum by more than this is a jump.
const JUMP: u64 = 1 << 30;
/// No work here counts more than this.
const MAX_COUNT: u64 = 1 << 40;
/// The range of cycles per nanosecond, as a fraction: between 50 MHz and 10 GHz.
const CYCLES: [(u64, u64); 2] = [(1, 20), (10, 1)];
/// Counters of cycles that count at the same time differ by less than this part.
const SAME: u64 = 8;

/// Returns the minima, or the verdict that needs nothing else.
fn minima(lengths: &Lengths) -> Result<[u64; 3], Verdict> {
    let mut minima = [0; 3];
    for (least, counts) in minima.iter_mut().zip(lengths) {
        *least = counts.iter().copied().min().ok_or(Verdict::TooNoisy)?;
        if *least > MAX_COUNT || counts.iter().any(|count| count - *least > JUMP) {
            return Err(Verdict::Implausible);
        }
    }
    Ok(minima)
}

/// Whether the counter stood still, for all or for a part of some sample: its count is far below the median.
fn stood_still(lengths: &Lengths) -> bool {
    lengths.iter().skip(1).any(|counts| {
        let mut sorted = counts.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        sorted.first().is_some_and(|least| *least < median / 4 * 3)
    })
}

/// Judges counts of work with exactly `per_round` events in each round. The minima of samples have no interrupts.
pub(crate) fn judge_exact(lengths: &Lengths, rounds: [u64; 3], per_round: u64) -> Verdict {
    let [empty, short, long] = match minima(lengths) {
        Ok(minima) => minima,
        Err(verdict) => return verdict,
    };
    let [_, short_rounds, long_rounds] = rounds.map(|rounds| rounds * per_round);
    let expected = long_rounds - short_rounds;
    // A counter that counts a thousandth does not count.
    if stood_still(lengths) || long < long_rounds / 1_000 {
        return Verdict::CountsNothing;
    }
    let counted = long.saturating_sub(short);
    // The counts are below MAX_COUNT.
    let first = short as i64 - empty as i64;
    if counted == expected {
        return match first - short_rounds as i64 {
            0 => Verdict::Exact,
            more => Verdict::OffByConstant { more },
        };
    }
    let [.., samples] = lengths;
    let agreeing = samples.iter().filter(|count| **count <= long + long / 1_000).count();
    match counted {
        _ if counted < expected / 1_000 => Verdict::CountsNothing,
        _ if agreeing * 3 < samples.len() => Verdict::TooNoisy,
        _ if counted.abs_diff(expected) <= expected / 1_000 => Verdict::TooNoisy,
        _ if counted > expected.saturating_mul(64) => Verdict::Implausible,
        counted => Verdict::Off { expected, counted },
    }
}

/// Judges counts of cycles, by the times that the work took.
pub(crate) fn judge_cycles(lengths: &Lengths, nanoseconds: [u64; 3]) -> Verdict {
    let [_, short, long] = match minima(lengths) {
        Ok(minima) => minima,
        Err(verdict) => return verdict,
    };
    let [_, short_time, long_time] = nanoseconds;
    let (counted, time) = (long.saturating_sub(short), long_time.saturating_sub(short_time));
    let [(least, per), (most, per_ns)] = CYCLES;
    if counted < 100 {
        Verdict::CountsNothing
    } else if time == 0 || long_time == u64::MAX {
        Verdict::TooNoisy // no clock to compare with
    } else if counted < time / per * least || counted > time.saturating_mul(most) / per_ns {
        Verdict::Implausible
    } else {
        Verdict::Plausible
    }
}

/// Compares counters that counted the same cycles: a plausible one that differs from most is off.
pub(crate) fn compare(verdicts: &mut [Verdict], lengths: &[Lengths]) {
    let counted = |lengths: &Lengths| match minima(lengths) {
        Ok([_, short, long]) => long.saturating_sub(short),
        Err(_) => 0,
    };
    let plausible = lengths.iter().zip(verdicts.iter());
    let plausible = plausible.filter(|(_, verdict)| **verdict == Verdict::Plausible);
    let mut sorted: Vec<u64> = plausible.map(|(lengths, _)| counted(lengths)).collect();
    sorted.sort_unstable();
    let Some(&expected) = sorted.get(sorted.len() / 2) else { return };
    for (verdict, lengths) in verdicts.iter_mut().zip(lengths) {
        let counted = counted(lengths);
        if *verdict == Verdict::Plausible && counted.abs_diff(expected) > expected / SAME {
            *verdict = Verdict::Off { expected, counted };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: [u64; 3] = [0, 1_000, 10_000];

    /// Returns the verdict on nine samples of each length, whose counts `count` makes of the exact ones.
    fn verdict(count: impl Fn(u64, u64) -> u64) -> Verdict {
        let lengths = ROUNDS.map(|rounds| (0..9).map(|n| count(30 + 2 * rounds, n)).collect());
        judge_exact(&lengths, ROUNDS, 2)
    }

    #[test]
    fn one_wrong_read_in_user_space_is_proof() {
        let right = UserRead::Count { before: 5, user: 7, after: 9 };
        let low = UserRead::Count { before: 5, user: 4, after: 9 };
        let high = UserRead::Count { before: 5, user: 10, after: 9 };
        let of = |reads: &[UserRead]| agree(reads.iter().copied());
        assert!(of(&[right; 9]));
        for wrong in [low, high] {
            for place in 0..9 {
                let reads =
                    std::array::from_fn::<_, 9, _>(|at| if at == place { wrong } else { right });
                assert!(!of(&reads), "{wrong:?} at {place}");
            }
        }
        assert!(of(&[UserRead::None, right, UserRead::None]));
        assert!(!of(&[UserRead::None; 9]));
        assert!(of(&[UserRead::NotOffered; 9]));
        assert!(!of(&[UserRead::NotOffered, low]));
    }

    #[test]
    fn each_fault_has_its_verdict() {
        assert_eq!(verdict(|exact, _| exact), Verdict::Exact);
        // An interrupt in some samples, which the minimum does not have.
        assert_eq!(verdict(|exact, n| exact + u64::from(n % 4 == 1)), Verdict::Exact);
        let half = Verdict::Off { expected: 18_000, counted: 9_000 };
        assert_eq!(verdict(|exact, _| exact / 2), half);
        let sixteenfold = Verdict::Off { expected: 18_000, counted: 288_000 };
        assert_eq!(verdict(|exact, _| exact * 16), sixteenfold);
        assert_eq!(verdict(|_, _| 0), Verdict::CountsNothing);
        assert_eq!(verdict(|_, _| 6), Verdict::CountsNothing);
        // The host takes its counter away now and then.
        assert_eq!(verdict(|exact, n| if n == 5 { 6 } else { exact }), Verdict::CountsNothing);
        let in_one = |length: u64, count: u64| {
            verdict(move |exact, n| if n == 5 && exact == 30 + 2 * length { count } else { exact })
        };
        assert_eq!(in_one(10_000, 6), Verdict::CountsNothing);
        assert_eq!(in_one(10_000, 9_000), Verdict::CountsNothing);
        assert_eq!(in_one(1_000, 6), Verdict::CountsNothing);
        let jumps = |exact, n| if n == 3 { exact + (1 << 31) } else { exact };
        assert_eq!(verdict(jumps), Verdict::Implausible);
        assert_eq!(verdict(|exact, _| exact * 1_000), Verdict::Implausible);
        let constant = |exact, _| if exact > 30 { exact - 7 } else { exact };
        assert_eq!(verdict(constant), Verdict::OffByConstant { more: -7 });
        assert_eq!(verdict(|exact, n| exact + 50 * (n * 37 % 11) + exact / 99), Verdict::TooNoisy);
        assert_eq!(judge_exact(&Lengths::default(), ROUNDS, 2), Verdict::TooNoisy);
        // Counts that went back.
        assert_eq!(verdict(|_, _| u64::MAX), Verdict::Implausible);
        assert_eq!(
            verdict(|exact, _| if exact > 3_000 { u64::MAX } else { 1 }),
            Verdict::Implausible
        );
        assert_eq!(verdict(|exact, _| if exact == 30 { 1 << 63 } else { 1 }), Verdict::Implausible);
    }

    #[test]
    fn cycles_are_compared_with_the_clock_and_each_other() {
        let cycles =
            |per_round: u64| -> Lengths { ROUNDS.map(|rounds| vec![100 + per_round * rounds; 9]) };
        let time = [20, 270, 2_520];
        assert_eq!(judge_cycles(&cycles(1), time), Verdict::Plausible);
        assert_eq!(judge_cycles(&cycles(0), time), Verdict::CountsNothing);
        assert_eq!(judge_cycles(&cycles(100), time), Verdict::Implausible);
        assert_eq!(judge_cycles(&cycles(1), time.map(|ns| ns * 1_000)), Verdict::Implausible);
        // Without a clock.
        assert_eq!(judge_cycles(&cycles(1), [0; 3]), Verdict::TooNoisy);
        assert_eq!(judge_cycles(&cycles(1), [u64::MAX; 3]), Verdict::TooNoisy);
        // One of three counts, and the others are dead.
        let mut verdicts = [Verdict::CountsNothing, Verdict::Plausible, Verdict::CountsNothing];
        compare(&mut verdicts, &[cycles(0), cycles(1), cycles(0)]);
        assert_eq!(verdicts[1], Verdict::Plausible);
        let all = [cycles(6), cycles(6), cycles(3), cycles(6)];
        let mut verdicts = [Verdict::Plausible; 4];
        compare(&mut verdicts, &all);
        let half = Verdict::Off { expected: 54_000, counted: 27_000 };
        assert_eq!(verdicts, [Verdict::Plausible, Verdict::Plausible, half, Verdict::Plausible]);
    }
}
