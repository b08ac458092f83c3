//! Keeps the handles on the thread that opened them, with an error of the compiler that says why.
#![allow(unsafe_code)]

use super::counter::Counter;
use super::dyn_group::DynGroup;
use super::group::Group;

/// Implemented by nothing. The compiler's error for it is read by those who move a counter to another thread.
#[diagnostic::on_unimplemented(
    message = "a counter counts the thread that opened it, and cannot be used on another one",
    label = "this would use it on another thread",
    note = "open the counter inside the thread that uses it, or let `rdpmc::PerThread` open one on each thread that reads; \
            `rdpmc::SyscallGroup` counts several threads"
)]
pub trait AnyThread {}

macro_rules! keep_on_its_thread {
    ($(($($generic:tt)*) $handle:ty;)*) => {
        $(
            // SAFETY: the condition never holds, because nothing implements the trait, and no other crate may implement it for a
            // reference to this type.
            unsafe impl<$($generic)*> Send for $handle where for<'a> &'a $handle: AnyThread {}
            // SAFETY: as above.
            unsafe impl<$($generic)*> Sync for $handle where for<'a> &'a $handle: AnyThread {}
        )*
    };
}

keep_on_its_thread! {
    () Counter;
    (const N: usize) Group<N>;
    () DynGroup;
}
