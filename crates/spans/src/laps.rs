//! The stages of a loop.
#![allow(unsafe_code)]

use crate::Site;
use crate::local::{self, Lap};
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
    /// The session in which the current lap began. 0 if none has.
    session: u32,
    lap: Lap,
    of_a_thread: PhantomData<*const ()>,
}

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
        let session = local::recording();
        let header = local::header();
        // SAFETY: the header is this thread's.
        let has_begun =
            session != 0 && unsafe { ((*header).calls.begin)(header, &mut self.lap, session) };
        self.session = if has_begun { session } else { 0 };
    }

    /// Ends the lap of `stage` here, and begins the next.
    ///
    /// Records nothing if no lap has begun, or spans were off at some boundary since then.
    #[inline(always)]
    pub fn next(&mut self, stage: impl Stage) {
        let site = stage.site(); // first, because it is the program's code
        let session = local::recording();
        if session == 0 {
            self.session = 0;
        } else if session == self.session {
            let header = local::header();
            // SAFETY: the header is this thread's.
            unsafe { ((*header).calls.lap)(header, site, &mut self.lap) }
        } else {
            self.begin();
        }
    }
}

/// Begins a lap and ends `laps` laps, by the calls alone: the minimal cost of a lap.
#[inline(never)]
pub(crate) fn minimal_laps(site: &'static Site, laps: u32, session: u32) {
    let (header, mut lap) = (local::header(), Lap::new());
    // SAFETY: the header is this thread's, and `begin` has begun the lap in its state.
    unsafe {
        let calls = (*header).calls;
        if (calls.begin)(header, &mut lap, session) {
            for _ in 0..laps {
                (calls.lap)(header, site, &mut lap);
            }
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
