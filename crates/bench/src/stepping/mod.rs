//! Instructions by single-stepping, in this process and in others.

pub(crate) mod again;
pub(crate) mod by_function;
pub(crate) mod stepped;
