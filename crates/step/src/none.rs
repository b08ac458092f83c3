//! Every other target: nothing is stepped.

use crate::StepError;
use std::convert::Infallible;

/// Returns [`StepError::Unsupported`].
pub(crate) fn check() -> Result<(), StepError> {
    Err(StepError::Unsupported)
}

/// Does nothing.
pub(crate) fn start() {}

/// Does not exist.
#[derive(Debug)]
pub(crate) struct Counting(Infallible);

impl Counting {
    /// Returns [`StepError::Unsupported`].
    pub(crate) fn begin(_: u64, room: Room) -> Result<Counting, (StepError, Room)> {
        Err((StepError::Unsupported, room))
    }

    /// Is never called.
    pub(crate) fn end(self) -> (Result<u64, StepError>, Room) {
        match self.0 {}
    }
}

/// Has no addresses.
#[derive(Debug)]
pub(crate) struct Room;

impl Room {
    pub(crate) const NONE: Room = Room;

    /// Returns [`StepError::Unsupported`], unless it is for nothing.
    pub(crate) fn new(capacity: usize) -> Result<Room, StepError> {
        if capacity == 0 { Ok(Room) } else { Err(StepError::Unsupported) }
    }

    pub(crate) fn to_step_into(capacity: usize) -> Result<Room, StepError> {
        Room::new(capacity)
    }

    pub(crate) fn capacity(&self) -> usize {
        0
    }

    pub(crate) fn push(&mut self, _: usize) -> bool {
        false
    }

    pub(crate) fn truncate(&mut self, _: usize) {}

    pub(crate) fn addresses(&self) -> &[usize] {
        &[]
    }

    pub(crate) fn addresses_mut(&mut self) -> &mut [usize] {
        &mut []
    }
}
