//! The addresses of counted instructions, and how often each of them ran.

use crate::StepError;
use crate::method::Room;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The addresses of counted instructions, one after the other, for [`count_into`](crate::count_into). They are in memory of their own, not on
/// the heap, where they could change what the counted code does.
///
/// arm64: in a child that was forked, there is no room in those of its parent.
pub struct Addresses(pub(crate) Room);

impl Addresses {
    /// Returns room for no address. Costs nothing.
    pub const fn new() -> Addresses {
        Addresses(Room::NONE)
    }

    /// Returns room for as many addresses, of 8 bytes each. The memory is used when they are written.
    ///
    /// # Errors
    /// - [`StepError::System`] if this process cannot have as much memory.
    /// - [`StepError::Unsupported`] where nothing is stepped.
    pub fn with_capacity(instructions: usize) -> Result<Addresses, StepError> {
        Room::to_step_into(instructions).map(Addresses)
    }

    /// Returns room for what can be stepped in this time, if a step takes so many seconds: 16 million addresses at most. None if this
    /// process cannot have as much memory.
    pub fn for_time(time: Duration, seconds_per_step: f64) -> Addresses {
        const MOST: u64 = 16 << 20;
        let steps = (time.as_secs_f64() / seconds_per_step) as u64;
        Addresses::with_capacity(steps.min(MOST) as usize).unwrap_or_default()
    }

    /// Returns how many addresses fit, with those that are there.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the addresses. There are fewer than instructions if there was not enough room.
    pub fn as_slice(&self) -> &[usize] {
        self.0.addresses()
    }

    /// Removes the addresses. The room stays.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Removes all but the first addresses.
    pub fn truncate(&mut self, number: usize) {
        self.0.truncate(number);
    }
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses::new()
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addresses({})", self.as_slice().len())
    }
}

/// How often the instruction at each address ran: a sum and difference of counts, in the order of the addresses. Not on the heap either.
pub struct Tally(Room);

impl Tally {
    /// Adds counts whose addresses are at these places, each as often as its number says: -1 subtracts it. Sorts the addresses of each
    /// count.
    ///
    /// None if there are fewer addresses, if two counts have a place in common, or if this process cannot have the memory.
    pub fn new(addresses: &mut Addresses, counts: &[(i64, Range<usize>)]) -> Option<Tally> {
        let ranges = counts.iter().map(|(_, range)| range);
        let mut by_place: Vec<&Range<usize>> = ranges.filter(|range| !range.is_empty()).collect();
        by_place.sort_by_key(|range| range.start);
        let overlap = |pair: &[&Range<usize>]| matches!(pair, [one, two] if one.end > two.start);
        if by_place.windows(2).any(overlap) {
            return None;
        }
        let all = addresses.0.addresses_mut();
        for range in by_place {
            all.get_mut(range.clone())?.sort_unstable();
        }
        let parts = counts.iter().map(|(times, range)| Some((*times, all.get(range.clone())?)));
        let parts: Vec<(i64, &[usize])> = parts.collect::<Option<_>>()?;
        let most: usize = parts.iter().map(|(_, addresses)| addresses.len()).sum();
        let mut tally = Tally(Room::new(most.checked_mul(2)?).ok()?);
        // The next address of each part, by its place.
        let mut from = 0;
        while let Some(address) = parts.iter().filter_map(|(_, part)| next(part, from)).min() {
            let runs = |(times, addresses): &(i64, &[usize])| {
                times.saturating_mul(run_of(addresses, address) as i64)
            };
            let runs = parts.iter().map(runs).fold(0_i64, i64::saturating_add);
            if runs != 0 && !(tally.0.push(address) && tally.0.push(runs as usize)) {
                return None;
            }
            match address.checked_add(1) {
                Some(above) => from = above,
                None => break,
            }
        }
        Some(tally)
    }

    /// Returns each address, and how often its instruction ran. Never 0.
    pub fn iter(&self) -> impl Iterator<Item = (usize, i64)> {
        self.0.addresses().chunks_exact(2).filter_map(|pair| match pair {
            [address, runs] => Some((*address, *runs as i64)),
            _ => None,
        })
    }

    /// Returns the number of instructions.
    pub fn instructions(&self) -> i64 {
        self.iter().fold(0, |sum, (_, runs)| sum.saturating_add(runs))
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Returns the first of the sorted addresses that is not below `from`.
fn next(addresses: &[usize], from: usize) -> Option<usize> {
    addresses.get(addresses.partition_point(|address| *address < from)).copied()
}

/// Returns how often an address is among the sorted ones.
fn run_of(addresses: &[usize], address: usize) -> usize {
    addresses.partition_point(|known| *known <= address)
        - addresses.partition_point(|known| *known < address)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[test]
    fn counts_are_added_and_subtracted() {
        let of = |all: &[usize]| {
            let mut addresses = Addresses::with_capacity(all.len()).unwrap();
            assert!(all.iter().all(|address| addresses.0.push(*address)));
            addresses
        };
        let mut all = of(&[9, 3, 3, 7, 3, usize::MAX, 7, 3, 0]);
        let tally = Tally::new(&mut all, &[(-1, 6..9), (1, 0..6)]).unwrap();
        let expected = [(0, -1), (3, 2), (9, 1), (usize::MAX, 1)];
        assert_eq!(tally.iter().collect::<Vec<_>>(), expected);
        assert_eq!(tally.instructions(), 3);
        let none = Tally::new(&mut of(&[5, 6, 6, 5, 6, 5]), &[(2, 0..2), (-1, 2..6)]).unwrap();
        assert_eq!((none.iter().count(), none.instructions()), (0, 0));
        assert_eq!(Tally::new(&mut all, &[]).unwrap().iter().count(), 0);
        assert_eq!(Tally::new(&mut all, &[(1, 3..3), (1, 2..5)]).unwrap().instructions(), 3);
        let wrong = [[(1, 0..5), (-1, 4..6)], [(1, 0..1), (1, 0..1)], [(1, 0..1), (1, 1..10)]];
        for wrong in wrong {
            assert!(Tally::new(&mut all, &wrong).is_none(), "{wrong:?}");
        }
    }
}
