//! The step of a tick counter: how long it shows one value.
#![forbid(unsafe_code)]

/// The number of changes of the counter to look at.
const CHANGES: usize = 32;
/// A change that is no sum of extra ticks.
const MORE_THAN_EXTRA: u64 = 8;
/// The maximum number of reads.
const MAX_READS: u32 = 100_000;

/// Returns the step of a counter, in its unit: the smallest difference between two of its values. At least 1.
pub(crate) fn step_of(mut read: impl FnMut() -> u64) -> u64 {
    let mut changes = [0_u64; CHANGES];
    let mut next = changes.iter_mut();
    let mut last = read();
    // The last value that was more than an extra tick. AMD's CPUs return no value twice: the second read in a step returns
    // one more than the first.
    let mut begun = None;
    for _ in 0..MAX_READS {
        let now = read();
        let change = match now.wrapping_sub(last) {
            0 => None,
            // The first one may begin with an extra tick.
            MORE_THAN_EXTRA.. => begun.replace(now).map(|begun| now.wrapping_sub(begun)),
            extra => Some(extra),
        };
        last = now;
        // 0 if the counter has gone back, and forth again.
        if let Some(change) = change.filter(|change| *change > 0) {
            let Some(into) = next.next() else { break };
            *into = change;
        }
    }
    let unused = next.len();
    changes.sort_unstable();
    smallest_step(changes.get(unused..).unwrap_or_default())
}

/// Returns the step of a counter with these changes, which are sorted. 1 if there are none.
fn smallest_step(changes: &[u64]) -> u64 {
    let longer = changes.iter().filter(|change| **change >= MORE_THAN_EXTRA).count();
    let has_extra_ticks = longer >= CHANGES / 8;
    let steps = changes.iter().copied().filter(|change| *change > 1 || !has_extra_ticks);
    let Some(least) = steps.clone().next() else { return 1 };
    // The changes of a counter with a step are multiples of it. Those of one that shows each tick are the time of a read,
    // which varies by less.
    let is_multiple = |change: u64| change.wrapping_add(1) % least <= 2;
    if steps.clone().filter(|change| !is_multiple(*change)).count() < CHANGES / 4 {
        return least;
    }
    let gaps = steps.clone().zip(steps.skip(1)).map(|(one, next)| next - one);
    gaps.filter(|gap| *gap > 0).min().unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that is read every `cost` ticks, and has a step of `step` ticks. `once_more`: as on AMD's CPUs.
    fn counter(cost: u64, step: u64, once_more: bool) -> impl FnMut() -> u64 {
        let (mut time, mut last, mut round) = (1_000_000_007, 0, 0);
        move || {
            round += 1;
            time += cost + round % 3;
            let shown = time / step * step;
            last = if once_more && shown <= last { last + 1 } else { shown };
            last
        }
    }

    #[test]
    fn the_step_of_counters() {
        // An AMD CPU whose reads take less than a step, with and without its extra ticks.
        for (step, reads) in [(26, 0), (26, 1), (26, 2), (26, 3), (37, 2), (45, 4)] {
            let mut read = counter(9, step, true);
            (0..reads).for_each(|_| _ = read());
            let found = step_of(read);
            assert_eq!(found, step);
            assert_eq!(step_of(counter(9, step, false)), step);
            // Each read takes more than a step.
            assert_eq!(step_of(counter(step * 2 - 1, step, false)) % step, 0);
        }
        // A counter that shows each tick, and one that shows every second one.
        assert_eq!(step_of(counter(18, 1, false)), 1);
        assert_eq!(step_of(counter(19, 2, false)), 2);
        // If each read takes the same time, its step is not seen.
        let mut time = 0;
        let found = step_of(|| {
            time += 18;
            time
        });
        assert_eq!(found, 18);
        // One of 25 MHz, which stays the same over many reads.
        let mut read = counter(1, 40, false);
        assert_eq!(step_of(|| read() / 40), 1);
        // One that stands still, and one that runs backwards.
        assert_eq!(step_of(|| 7), 1);
        let mut time = u64::MAX / 2;
        let found = step_of(|| {
            time -= 5;
            time
        });
        assert_eq!(found, 5_u64.wrapping_neg());
        // Counters that go back and forth, as no clock should: any answer, and no panic.
        for values in [[7, 6, 7, 6], [0, u64::MAX, 0, u64::MAX], [5, 90, 5, 90], [1, 2, 90, 1]] {
            let mut next = values.into_iter().cycle();
            assert!(step_of(|| next.next().unwrap_or(0)) >= 1, "{values:?}");
        }
        // Interruptions are not steps.
        let (mut read, mut reads, mut away) = (counter(9, 26, false), 0, 0);
        let found = step_of(|| {
            reads += 1;
            away += if reads % 4 == 0 { 26_000 } else { 0 };
            read() + away
        });
        assert_eq!(found, 26);
    }
}
