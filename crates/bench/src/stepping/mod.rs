//! Instructions by single-stepping, in this process and in others.

pub(crate) mod again;
pub(crate) mod stepped;
