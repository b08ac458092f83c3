//! The hot path of laps.
#![allow(unsafe_code)]

use crate::counting::Counting;
use crate::record::{FLAGS_SHIFT, Flags, OFFSET, SLOT, Site, address, count_lost, depth_of};
use crate::thread::current::{Header, Lap, NOT_INLINED, join_and_begin};
use crate::thread::stack::{BUSY, one_deeper};
use crate::thread::state::{Counter, Known, LocalOf};
use std::ptr;

impl<C: Counting<N>, const N: usize> LocalOf<Counter<C, N>> {
    /// Begins a lap. Returns whether it has.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn begin(header: *const Header, lap: &mut Lap, session: u32) -> bool {
        // SAFETY: the caller's promise, and the state whose calls these are is a Self.
        let this = unsafe { Self::from_header(header) };
        if this.local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { join_and_begin(header, lap, session) };
        }
        if N > 0 {
            this.local.sink.begin_lap(depth_of(one_deeper(this.top().get())));
        }
        let counted;
        (lap.ticks, counted) = this.boundary(this.counting.0.snapshot());
        this.set(lap, counted);
        lap.around != BUSY
    }

    #[inline(always)]
    fn set(&self, lap: &mut Lap, counted: Option<C::Snapshot>) {
        lap.around = self.top().get();
        lap.fiber = self.local.fiber.current();
        lap.counted_in = NOT_INLINED;
        if let Some(counted) = counted {
            lap.start.set(counted);
            // A lap has the depth of a span there. At the last depth, it is left to `lap_slowly`, and so is it while a record
            // is being written.
            if lap.around & OFFSET != 0 {
                lap.counted_in = lap.around;
                let flags = u64::from(Flags::LAP.bits()) << FLAGS_SHIFT;
                lap.last = lap.around.wrapping_sub(SLOT) | flags;
            }
        }
    }

    /// Ends a lap, and begins the next.
    ///
    /// # Safety
    /// The header is this thread's, and the thread has a tick counter.
    pub(super) unsafe fn lap(header: *const Header, site: &'static Site, lap: &mut Lap) {
        // SAFETY: as in `begin`.
        let this = unsafe { Self::from_header(header) };
        let local = &this.local;
        // SAFETY: the caller's promise.
        let end = unsafe { local.tick_counter() }.read();
        let Some(counted) = this.counting.0.snapshot() else {
            return this.lap_uncounted(site, lap, end);
        };
        let around = this.top().get();
        if around != lap.counted_in {
            local.ended.set(counted);
            return this.lap_counted(site, lap, end);
        }
        // SAFETY: it is counted, so `begin` has set it, or the lap before. Other states have other numbers.
        let begun = unsafe { lap.start.get() };
        let (counts, false) = C::between(begun, counted) else {
            local.ended.set(counted);
            return this.lap_counted(site, lap, end);
        };
        lap.start.set(counted);
        let start = std::mem::replace(&mut lap.ticks, end);
        let parent = local.stack.site(around);
        let head = [address(site), address(parent), start, end, lap.last];
        // SAFETY: the sink was made for N counts. The top is `around`, which is not BUSY.
        unsafe { local.write(this.top(), around, head, counts) }
    }

    /// Ends a lap at the kernel's time, and begins the next.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn lap_by_the_kernel(
        header: *const Header,
        site: &'static Site,
        lap: &mut Lap,
    ) {
        // SAFETY: as in `begin`.
        let this = unsafe { Self::from_header(header) };
        this.lap_slowly(site, lap, this.local.clock.ticks(), this.counting.0.snapshot());
    }

    #[cold]
    #[inline(never)]
    fn lap_uncounted(&self, site: &'static Site, lap: &mut Lap, end: u64) {
        self.lap_slowly(site, lap, end, None);
    }

    /// With the counts in `ended`.
    #[cold]
    #[inline(never)]
    fn lap_counted(&self, site: &'static Site, lap: &mut Lap, end: u64) {
        // SAFETY: the caller has set it.
        let counted = unsafe { self.local.ended.get() };
        self.lap_slowly(site, lap, end, Some(counted));
    }

    /// Ends a lap that is disturbed or not counted, and begins the next.
    fn lap_slowly(
        &self,
        site: &'static Site,
        lap: &mut Lap,
        end: u64,
        counted: Option<C::Snapshot>,
    ) {
        let local = &self.local;
        // The boundary: until then of this lap, and from then on of the next.
        let (mut end, mut next) = (end, counted);
        // In an earlier session, or in a fiber before it left, perhaps on another thread.
        let is_foreign =
            local.stack.is_older(lap.around) || lap.fiber != self.local.fiber.current();
        let begun = match lap.counted_in == lap.around {
            // SAFETY: it is counted, so `begin` has set it, or the lap before. In this state: it is not foreign.
            true if !is_foreign => Some(unsafe { lap.start.get() }),
            _ => None,
        };
        let is_disturbed = |now| begun.is_some_and(|begun| C::between(begun, now).1);
        if counted.is_some_and(is_disturbed) {
            // A switch after the ticks were read is this lap's by its counts. So is its time, then. What it takes to find out is in
            // no lap's counts.
            (end, next) = self.boundary(counted);
        }
        let ticks = [std::mem::replace(&mut lap.ticks, end), end];
        let (mut counts, mut known) = ([0; N], Known::only(Flags::LAP));
        if is_foreign || self.top().get() == BUSY {
            self.set(lap, next);
            return count_lost(1); // it began elsewhere, or a record is being written
        }
        match (counted, begun) {
            (Some(counted), Some(begun)) => {
                let (between, is_disturbed) = C::between(begun, counted);
                counts = between;
                if is_disturbed {
                    known = self.disturbed(begun, next.unwrap_or(counted), ticks);
                    known.flags = known.flags.union(Flags::LAP);
                }
            }
            // Without counters, those of the last depth are no worse than others.
            (Some(_), None) if N == 0 => {}
            _ => known.flags = known.flags.union(Flags::NOT_COUNTED),
        }
        let around = std::mem::replace(&mut lap.around, self.top().get());
        let mut parent = local.stack.site(around);
        if around != lap.around {
            // The span around its beginning is not the one around its end.
            (parent, known.flags) = (ptr::null(), known.flags.union(Flags::OUT_OF_ORDER));
        }
        self.set(lap, next);
        local.record(site, parent, ticks, one_deeper(around), known, counts);
    }
}
