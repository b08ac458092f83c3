//! The calibration in simulated worlds, where the true time is known.
#![allow(clippy::unwrap_used)]

use super::random::{Any, Draw, Random};
use crate::clock::calibration::{Calibration, Sample};

/// The counter and the time, both in 2^-20 of the units that samples have.
#[derive(Clone, Debug)]
struct World {
    time: u128,
    count: u128,
    /// The length of a tick in 2^-32 nanoseconds.
    rate: u64,
    /// By how many parts per billion the rate varies at random. It also drifts by 36 times that, there and back,
    /// every ten minutes.
    wander: u64,
    /// The counter shows one value for this many ticks.
    step: u64,
    random: Random,
}

impl World {
    fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// Lets time pass, at a rate that varies by `wander`.
    fn pass(&mut self, ns: u64) {
        let at_once = self.random() % (2 * self.wander + 1);
        let phase = self.ns() % 600_000_000_000;
        let slowly = phase.min(600_000_000_000 - phase) * 36 * self.wander / 300_000_000_000;
        let parts = u128::from(1_000_000_000 + at_once + slowly - self.wander);
        let time = u128::from(ns) << 20;
        self.time += time;
        self.count += (time << 32) / u128::from(self.rate) * parts / 1_000_000_000;
    }

    fn ticks(&self) -> u64 {
        (self.count >> 20) as u64 / self.step * self.step
    }

    fn ns(&self) -> u64 {
        (self.time >> 20) as u64
    }

    /// Samples both. Mostly this takes some tens of nanoseconds. Now and then an interrupt makes it longer.
    fn look(&mut self) -> Sample {
        let before = self.ticks();
        let longest = if self.random() % 16 == 0 { 20_000 } else { 60 };
        let (first, second) = (self.random() % longest, self.random() % longest);
        self.pass(first);
        let ns = self.ns();
        self.pass(second);
        Sample { before, after: self.ticks(), ns, step: self.step }
    }

    /// Returns the conversion's error now, and its error bound.
    fn error(&self, calibration: &Calibration) -> (u64, u64) {
        let ticks = self.ticks();
        let time = calibration.conversion(0).ticks_to_ns(ticks);
        (time.abs_diff(self.ns()), calibration.error_bound(ticks))
    }

    fn calibrate(&mut self) -> Calibration {
        let first = self.look();
        self.pass(200_000);
        Calibration::new(first, self.look(), self.wander == 0).unwrap()
    }
}

/// Worlds whose two oscillators wander by up to `wander` parts per billion. Half of them do not wander.
fn worlds(wander: u64) -> impl Fn(&mut Random) -> World {
    move |random| {
        let wander = if random.next() % 2 == 0 { 0 } else { random.next() % (wander + 1) };
        // From 100 GHz to 10 MHz, running for up to thirteen days. A step is at most 100 ns.
        let rate = (43_000_000..430_000_000_000_u64).draw(random);
        let longest_step = (430_000_000_000 / rate).min(64);
        World {
            time: (u128::from(random.next() % (1 << 50)) + 1) << 20,
            count: u128::from(random.next() >> 8) << 20,
            rate,
            wander,
            step: if random.next() % 2 == 0 { 1 } else { random.next() % longest_step + 1 },
            random: Random(random.next()),
        }
    }
}

fn four_samples(random: &mut Random) -> [Sample; 4] {
    [(); 4].map(|()| Sample {
        before: Any::any(random),
        after: Any::any(random),
        ns: Any::any(random),
        step: Any::any(random),
    })
}

properties! {
    1_000 cases:

    #[test]
    fn the_truth_is_within_the_bound(mut world in worlds(50)) {
        let mut calibration = world.calibrate();
        let (mut narrowest, mut last) = (u64::MAX, world.ns());
        for round in 0..600 {
            // The time is asked for every now and then, but sometimes not for hours.
            let pause = match world.random() % 500 {
                0 => 10_000_000_000_000,
                1..=250 => 1_000_000,
                _ => 1_000_000_000,
            };
            for _ in 0..3 {
                let (error, bound) = world.error(&calibration);
                // With one oscillator, the bound holds until the next sample. With two, samples must be taken in
                // time.
                let holds = world.wander == 0 || calibration.covers(world.ticks());
                assert!(!holds || error <= bound, "{error} of {bound} in {round}: {calibration:?}");
                if round > 100 {
                    narrowest = narrowest.min(bound);
                }
                let pause = world.random() % pause / 3;
                world.pass(pause);
            }
            if !calibration.covers(world.ticks()) {
                let look = world.look();
                // With two oscillators, an old calibration says nothing about the present.
                let is_forgotten = world.wander > 0 && look.ns - last > 8_000_000_000;
                last = look.ns;
                calibration = match calibration.refined(look) {
                    Some(refined) => refined,
                    None if is_forgotten => world.calibrate(),
                    None => panic!("contradicted in round {round}: {calibration:?}"),
                };
            }
        }
        // A sample takes 60 ns, and a step at most 100 ns.
        assert!(narrowest <= 260, "{narrowest}: {calibration:?}");
    }

    #[test]
    fn the_bound_is_narrow_from_the_start(mut world in worlds(0)) {
        let look = |world: &mut World| loop {
            let look = world.look();
            if (look.width() * world.rate) >> 32 <= 130 + 2 * ((world.step * world.rate) >> 32) {
                return look; // as the narrowest of several
            }
        };
        let first = look(&mut world);
        world.pass(200_000);
        let mut calibration = Calibration::new(first, look(&mut world), true).unwrap();
        for _ in 0..100_000 {
            let (error, bound) = world.error(&calibration);
            assert!(error <= bound && bound <= 10 * (65 + ((world.step * world.rate) >> 32)), "{bound}");
            world.pass(100_000);
            if !calibration.covers(world.ticks()) {
                calibration = calibration.refined(look(&mut world)).unwrap();
            }
        }
    }

    #[test]
    fn another_counter_is_found_out(
        mut world in worlds(0), is_faster: bool, by in 10_u64..100_000,
    ) {
        let change = if is_faster { 1_000_000 + by } else { 1_000_000 - by };
        let mut calibration = world.calibrate();
        for _ in 0..20 {
            world.pass(1_000_000_000);
            calibration = calibration.refined(world.look()).unwrap();
        }
        // From here on the bound does not hold. Each round lasts a second at the new rate.
        world.rate = (u128::from(world.rate) * u128::from(change) / 1_000_000) as u64;
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 20, "not found out: {calibration:?}");
            world.pass(1_000_000_000);
            match calibration.refined(world.look()) {
                Some(refined) => calibration = refined,
                None => break,
            }
        }
        let calibration = world.calibrate();
        let (error, bound) = world.error(&calibration);
        assert!(error <= bound, "{error} of {bound}");
    }

    #[test]
    fn a_counter_that_is_set_back_is_found_out(mut world in worlds(0), by in 5_000_000_u64..) {
        let calibration = world.calibrate();
        let back = (u128::from(by) << 20).min(world.count);
        world.count -= back;
        assert!(!calibration.covers(world.ticks()));
        assert!(calibration.refined(world.look()).is_none());
    }

    #[test]
    fn nothing_panics(samples in four_samples, same_oscillator: bool, ticks: u64) {
        let [first, second, others @ ..] = samples;
        if let Some(mut calibration) = Calibration::new(first, second, same_oscillator) {
            for other in others {
                calibration.covers(ticks);
                calibration.error_bound(ticks);
                calibration.conversion(ticks).ticks_to_ns(ticks);
                calibration = calibration.refined(other).unwrap_or(calibration);
            }
        }
    }
}

#[test]
fn a_counter_that_stands_still_is_none() {
    let look = Sample { before: 5, after: 5, ns: 1, step: 1 };
    assert!(Calibration::new(look, Sample { ns: 2_000_000, ..look }, true).is_none());
    assert!(
        Calibration::new(look, Sample { before: 4, after: 4, ns: 2_000_000, ..look }, true)
            .is_none()
    );
    assert!(Calibration::new(look, Sample { before: 500, after: 500, ..look }, true).is_none());
}
