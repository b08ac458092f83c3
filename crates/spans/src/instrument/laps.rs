//! The stages of a loop.
#![allow(unsafe_code)]

use crate::record::{Site, count_lost};
use crate::thread::{self, Lap};
use std::fmt;
use std::marker::PhantomData;

/// A stage of a loop, for [`Laps::next`]. [`stages!`](crate::stages) implements it for an enum.
pub trait Stage {
    /// Returns the site of this stage's laps.
    fn site(self) -> &'static Site;
}

impl Stage for &'static Site {
    fn site(self) -> &'static Site {
        self
    }
}

/// The boundaries between the stages of a loop, each with one read: a lap ends where the next begins.
///
/// ```
/// use rdpmc_spans::{Laps, stages};
///
/// stages!(enum Stage { Decode = "decode", Decide = "decide" });
///
/// # fn decode() {}
/// # fn decide() {}
/// for _ in 0..10 {
///     let mut laps = Laps::start();
///     decode();
///     laps.next(Stage::Decode);
///     decide();
///     laps.next(Stage::Decide);
/// }
/// ```
///
/// The time of recording a lap is part of the next lap. `Laps::start` adds 25 or more instructions to the first lap. To avoid
/// them, keep one `Laps` and call [`begin`](Laps::begin).
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_spans::Laps>();
/// ```
pub struct Laps {
    /// The session in which the current lap began. 0 if none has, REFUSED if one could not.
    session: u32,
    lap: Lap,
    of_a_thread: PhantomData<*const ()>,
}

/// In place of a session: spans were on, and the lap could not begin.
const REFUSED: u32 = u32::MAX;

impl Laps {
    /// Returns laps that have not begun. The first call of [`next`](Laps::next) begins one, and records nothing.
    pub const fn new() -> Laps {
        Laps { session: 0, lap: Lap::new(), of_a_thread: PhantomData }
    }

    /// Begins the first lap.
    #[inline(always)]
    pub fn start() -> Laps {
        let mut laps = Laps::new();
        laps.begin();
        laps
    }

    /// Begins a lap here. Discards the time since the last boundary.
    #[inline(always)]
    pub fn begin(&mut self) {
        let session = thread::recording();
        let header = thread::header();
        // SAFETY: the header is this thread's.
        let has_begun =
            session != 0 && unsafe { ((*header).calls().begin)(header, &mut self.lap, session) };
        self.session = match (has_begun, session) {
            (true, session) => session,
            (false, 0) => 0,
            (false, _) => REFUSED,
        };
    }

    /// Begins the first lap, or one after a lap that is lost.
    #[cold]
    #[inline(never)]
    fn begin_again(&mut self) {
        // One that could not begin, or began in an earlier recording.
        if self.session != 0 {
            count_lost(1);
        }
        self.begin();
    }

    /// Ends the lap of `stage` here, and begins the next.
    ///
    /// Records nothing if no lap has begun, or spans were off at some boundary since then. A lap that could not begin, and
    /// one of an earlier recording, is [lost](crate::Report::lost).
    ///
    /// The counts of a lap that has laps of another `Laps` in it include what these cost.
    #[inline(always)]
    pub fn next(&mut self, stage: impl Stage) {
        let site = stage.site(); // first, because it is the program's code
        let session = thread::recording();
        if session == 0 {
            self.session = 0;
        } else if session == self.session {
            let header = thread::header();
            // SAFETY: the header is this thread's.
            unsafe { ((*header).calls().lap)(header, site, &mut self.lap) }
        } else {
            self.begin_again();
        }
    }
}

impl Default for Laps {
    fn default() -> Laps {
        Laps::new()
    }
}

impl fmt::Debug for Laps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Laps").finish_non_exhaustive()
    }
}
