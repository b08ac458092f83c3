//! Reads that keep their place among the instructions around them.

use crate::clock::Clock;
use crate::counter::Counter;
use crate::error::Error;
use crate::group::Group;
use crate::read::Reading;
use crate::region::Region;

/// A [`Counter`], a [`Group`] or a [`Clock`] whose reads have fences around them: from
/// [`Counter::ordered`], [`Group::ordered`] or [`Clock::ordered`].
///
/// A counter is read by an instruction like any other, which an out-of-order processor may run before
/// earlier ones are done and after later ones have begun. With the fences, it waits for the earlier ones,
/// and the later ones wait for it. (What was stored may still be on its way to other processors; and on
/// arm64 it waits for a load only if something was decided by what was loaded, as whoever receives a
/// message does.)
///
/// They are `lfence` on x86-64 and `isb` on arm64: two instructions more, and the wait for what is
/// under way, of which the instruction counts here say nothing. On riscv64 there is none, and reads of
/// counters are the plain ones: by the architecture's manual (Zicsr), a hart sees its own reads of
/// CSRs in program order, after all that modifies them. (`fence` would order them against memory and
/// devices, not among instructions. `cpuid` is not used anywhere: in a virtual machine it is a trap to
/// the hypervisor.)
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// if let Ok(cycles) = Counter::open(Event::CYCLES) {
///     println!("{:?}", cycles.ordered().read());
/// }
/// ```
#[derive(Debug)]
pub struct Ordered<'a, H>(pub(crate) &'a H);

impl<H> Clone for Ordered<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H> Copy for Ordered<'_, H> {}

impl<'a> Ordered<'a, Counter> {
    /// As [`Counter::read_user`]: 16 instructions on x86-64, 16 on arm64 (17 with 32-bit counters),
    /// 20 on riscv64.
    #[inline]
    pub fn read_user(&self) -> Option<u64> {
        self.0.read_user_ordered()
    }

    /// As [`Counter::read`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read(&self) -> Result<u64, Error> {
        match self.read_user() {
            Some(count) => Ok(count),
            None => self.0.read_by_system_call(),
        }
    }

    /// As [`Counter::reading`]. The times are those of just before the fence.
    ///
    /// # Errors
    /// As there.
    pub fn reading(&self) -> Result<Reading, Error> {
        self.0.reading_user_first::<true>()
    }

    /// As [`Counter::region`], and [`Region::ordered`].
    ///
    /// # Errors
    /// As [`Counter::region`].
    pub fn region(&self) -> Result<Region<'a, 1, true>, Error> {
        Ok(self.0.region()?.ordered())
    }
}

impl<'a, const N: usize> Ordered<'a, Group<N>> {
    /// As [`Group::read_user`]. One fence before all reads and one after.
    #[inline]
    pub fn read_user(&self) -> Option<[u64; N]> {
        self.0.reader.counts::<true>()
    }

    /// As [`Group::read`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read(&self) -> Result<[u64; N], Error> {
        match self.read_user() {
            Some(counts) => Ok(counts),
            None => self.0.read_by_system_call(),
        }
    }

    /// As [`Group::reading`]. The times are those of just before the fence.
    ///
    /// # Errors
    /// As there.
    pub fn reading(&self) -> Result<[Reading; N], Error> {
        self.0.reading_user_first::<true>()
    }

    /// As [`Group::region`], and [`Region::ordered`].
    ///
    /// # Errors
    /// As [`Group::region`].
    pub fn region(&self) -> Result<Region<'a, N, true>, Error> {
        Ok(self.0.region()?.ordered())
    }
}

/// A clock is read by threads that tell each other the time through memory, and so it has fences on
/// riscv64 as well, to which reading `time` is an input: `fence rw, i` before, `fence i, rw` after.
impl Ordered<'_, Clock> {
    /// As [`Clock::ticks`].
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.0.ticks_in_order::<true>()
    }

    /// As [`Clock::now`]: two instructions more.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.now_in_order::<true>()
    }
}
