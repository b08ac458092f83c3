//! The stand-in for `descriptor.rs` on targets without `perf_event_open`, where no event can be opened.
#![forbid(unsafe_code)]

use super::{Control, Errno};

#[derive(Debug)]
pub(crate) enum Descriptor {}

impl Descriptor {
    pub(crate) fn is_own(&self) -> Result<(), Errno> {
        match *self {}
    }
    pub(crate) fn has_id(&self, _: u64) -> bool {
        match *self {}
    }
    pub(crate) fn read(&self, _: &mut [u64], _: bool) -> Result<usize, Errno> {
        match *self {}
    }
    pub(crate) fn empty_call(&self) {
        match *self {}
    }
    pub(crate) fn put_back(&self, _: usize) {
        match *self {}
    }
    pub(crate) fn control(&self, _: Control) -> Result<(), Errno> {
        match *self {}
    }
}
