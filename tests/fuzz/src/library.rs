//! The library's own files, so that what is private can be fed.

#[path = "../../../src/error.rs"]
pub mod error;
#[path = "../../../src/event.rs"]
pub mod event;
#[path = "../../../src/field.rs"]
pub mod field;
#[path = "../../../src/modifiers.rs"]
pub mod modifiers;
#[path = "../../../src/names.rs"]
pub mod names;
#[path = "../../../src/pmu.rs"]
pub mod pmu;
#[path = "../../../src/syntax.rs"]
pub mod syntax;
#[path = "../../../src/sys.rs"]
pub mod sys;
