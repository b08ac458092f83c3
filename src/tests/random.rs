//! Random inputs for properties that hold for every input. Every run has identical inputs, and a failure names its
//! case.

use std::ops::{Range, RangeFrom, RangeInclusive};
use std::thread;

/// A generator of random numbers: splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number of random length in bits, often near a power of two or at an end of the range.
    fn varied(&mut self) -> u64 {
        let bits = self.next() % 64;
        match self.next() % 8 {
            0 => (bits % 4).wrapping_sub(2), // 0, 1 and the largest two
            1 => 1 << bits,
            2 => (1 << bits) - 1,
            3 => !(self.next() >> bits),
            4 | 5 => self.next() >> bits,
            _ => self.next(),
        }
    }
}

/// The case of a property that is being tried. Prints its name if the property fails.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) case: u32,
}

impl Drop for Case {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}: case {}", self.name, self.case);
        }
    }
}

/// A type whose values can all be drawn.
pub(super) trait Any {
    fn any(random: &mut Random) -> Self;
}

/// A set of values, one of which can be drawn.
pub(super) trait Draw {
    type Value;
    fn draw(&self, random: &mut Random) -> Self::Value;
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Any for $type {
            fn any(random: &mut Random) -> $type {
                random.varied() as $type
            }
        }
        impl Draw for RangeInclusive<$type> {
            type Value = $type;
            fn draw(&self, random: &mut Random) -> $type {
                let count = u128::from(*self.end()) - u128::from(*self.start()) + 1;
                // Each end comes up in one of 16 cases.
                match random.next() % 16 {
                    0 => *self.start(),
                    1 => *self.end(),
                    _ => (u128::from(*self.start()) + u128::from(random.varied()) % count) as $type,
                }
            }
        }
        impl Draw for Range<$type> {
            type Value = $type;
            fn draw(&self, random: &mut Random) -> $type {
                (self.start..=self.end - 1).draw(random)
            }
        }
        impl Draw for RangeFrom<$type> {
            type Value = $type;
            fn draw(&self, random: &mut Random) -> $type {
                (self.start..=<$type>::MAX).draw(random)
            }
        })*
    };
}
integers!(u16 u32 u64);

impl Any for bool {
    fn any(random: &mut Random) -> bool {
        random.next() % 2 == 0
    }
}

impl<F: Fn(&mut Random) -> T, T> Draw for F {
    type Value = T;
    fn draw(&self, random: &mut Random) -> T {
        self(random)
    }
}

/// Defines tests of properties: `fn name(NAME: TYPE, NAME in SET, ...)`, each tried with `cases` inputs.
macro_rules! properties {
    ($cases:literal cases: $(#[test] fn $name:ident($($inputs:tt)*) $body:block)*) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name);
            // Each property has its own inputs.
            let seed = name.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
            let random = &mut $crate::tests::random::Random(seed);
            // Miri takes a thousand times as long.
            for case in 0..if cfg!(miri) { $cases / 100 } else { $cases } {
                let _named = $crate::tests::random::Case { name, case };
                draw!(random, $($inputs)*,);
                $body
            }
        })*
    };
}

macro_rules! draw {
    ($random:ident, $(,)?) => {};
    ($random:ident, mut $name:ident in $set:expr, $($rest:tt)*) => {
        let mut $name = $crate::tests::random::Draw::draw(&$set, $random);
        draw!($random, $($rest)*);
    };
    ($random:ident, $name:ident in $set:expr, $($rest:tt)*) => {
        let $name = $crate::tests::random::Draw::draw(&$set, $random);
        draw!($random, $($rest)*);
    };
    ($random:ident, $name:ident: $type:ty, $($rest:tt)*) => {
        let $name = <$type as $crate::tests::random::Any>::any($random);
        draw!($random, $($rest)*);
    };
}
