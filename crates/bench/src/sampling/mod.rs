//! From a piece of code to samples: loops around it, in random order, measured by this machine.

pub(crate) mod code;
pub(crate) mod guard;
pub(crate) mod machine;
pub(crate) mod paths;
pub(crate) mod sample;
pub(crate) mod series;
