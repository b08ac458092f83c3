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

    pub(crate) fn new(_: usize) -> Result<Room, StepError> {
        Ok(Room)
    }

    pub(crate) fn has_none(&self) -> bool {
        true
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
