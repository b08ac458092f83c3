//! The addresses of counted instructions, and how often each of them ran.

use crate::StepError;
use crate::method::Room;
use std::fmt;

/// The addresses of counted instructions, one after the other, for [`count_into`](crate::count_into). They are in memory of their own, not on
/// the heap, where they could change what the counted code does.
pub struct Addresses(pub(crate) Room);

impl Addresses {
    /// Returns room for as many addresses, of 8 bytes each. The memory is used when they are written.
    ///
    /// # Errors
    /// [`StepError::System`] if this process cannot have as much memory.
    pub fn with_room(instructions: usize) -> Result<Addresses, StepError> {
        Room::new(instructions).map(Addresses)
    }

    /// Returns room for no address.
    pub const fn none() -> Addresses {
        Addresses(Room::NONE)
    }

    /// Whether nothing fits.
    pub fn has_no_room(&self) -> bool {
        self.0.has_none()
    }

    /// Returns the addresses. There are fewer than instructions if there was not enough room.
    pub fn as_slice(&self) -> &[usize] {
        self.0.addresses()
    }

    /// Returns the addresses, to be sorted.
    pub fn as_mut_slice(&mut self) -> &mut [usize] {
        self.0.addresses_mut()
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

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addresses({})", self.as_slice().len())
    }
}

/// How often the instruction at each address ran: a sum and difference of counts, in the order of the addresses. Not on the heap either.
pub struct Tally(Room);

impl Tally {
    /// Adds counts, each as often as its number says: -1 subtracts it. Sorts their addresses.
    ///
    /// # Errors
    /// [`StepError::System`] if this process cannot have as much memory.
    pub fn new(parts: &mut [(i64, &mut [usize])]) -> Result<Tally, StepError> {
        parts.iter_mut().for_each(|(_, addresses)| addresses.sort_unstable());
        let most: usize = parts.iter().map(|(_, addresses)| addresses.len()).sum();
        let mut tally = Tally(Room::new(most.saturating_mul(2))?);
        // The next address of each part, by its place.
        let mut from = 0;
        while let Some(address) = parts.iter().filter_map(|(_, rest)| next(rest, from)).min() {
            let runs = |(times, addresses): &(i64, &mut [usize])| {
                times.saturating_mul(run_of(addresses, address) as i64)
            };
            let runs = parts.iter().map(runs).fold(0_i64, i64::saturating_add);
            if runs != 0 && !(tally.0.push(address) && tally.0.push(runs as usize)) {
                break; // Twice as many words as addresses are enough.
            }
            match address.checked_add(1) {
                Some(above) => from = above,
                None => break,
            }
        }
        Ok(tally)
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
        let (mut more, mut less) = ([9, 3, 3, 7, 3, usize::MAX], [7, 3, 0]);
        let tally = Tally::new(&mut [(1, &mut more), (-1, &mut less)]).unwrap();
        let expected = [(0, -1), (3, 2), (9, 1), (usize::MAX, 1)];
        assert_eq!(tally.iter().collect::<Vec<_>>(), expected);
        assert_eq!(tally.instructions(), 3);
        let none = Tally::new(&mut [(2, &mut [5, 6]), (-1, &mut [6, 5, 6, 5])]).unwrap();
        assert_eq!((none.iter().count(), none.instructions()), (0, 0));
        assert_eq!(Tally::new(&mut []).unwrap().iter().count(), 0);
    }
}
