//! The addresses of counted instructions.

use crate::StepError;
use crate::method::Room;

/// The addresses of counted instructions, one after the other, for [`count_into`](crate::count_into). They are in memory of their own, not on
/// the heap, where they could change what the counted code does.
#[derive(Debug)]
pub struct Addresses(pub(crate) Room);

impl Addresses {
    /// Returns room for as many addresses, of 8 bytes each. The memory is used when they are written.
    ///
    /// # Errors
    /// [`StepError::System`] if there are not that many addresses in this process.
    pub fn with_room(instructions: usize) -> Result<Addresses, StepError> {
        Room::new(instructions).map(Addresses)
    }

    /// Returns room for no address.
    pub const fn none() -> Addresses {
        Addresses(Room::NONE)
    }

    /// Returns the addresses. There are fewer than instructions if there was not enough room.
    pub fn as_slice(&self) -> &[usize] {
        self.0.addresses()
    }

    /// Removes the addresses. The room stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
