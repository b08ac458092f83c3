//! Whose work is counted.

/// Whose work a [`SyscallGroup`](crate::SyscallGroup) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// That of the thread that opens it.
    #[default]
    Thread,
    /// That of the thread that opens it, of all threads that it starts from then on, and of those that they start (`inherit`,
    /// `inherit_thread`).
    ///
    /// For a program that opens its counters before it starts threads. The count of the new threads alone is this count less that of a
    /// [`Counter`](crate::Counter) of this thread.
    NewThreads,
    /// That of all threads of the process: those that are there, and all that start later.
    Process,
}
