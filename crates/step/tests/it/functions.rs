//! Where instructions went.

use crate::in_turn;
use rdpmc_step::functions::{Function, Loaded, Names, Split};
use rdpmc_step::{Addresses, Tally, count_into};
use std::hint::black_box;

#[inline(never)]
fn outer(rounds: u64) -> u64 {
    black_box(rounds) + inner(rounds)
}

#[inline(never)]
fn inner(rounds: u64) -> u64 {
    (0..rounds).fold(black_box(1), |sum, round| black_box(sum ^ round))
}

/// Returns the split of `run`'s instructions with `more` rounds without those with `less`, and the difference of the counts.
fn split(more: u64, less: u64, run: fn(u64) -> u64) -> (Split, i64) {
    let mut addresses = Addresses::with_capacity(100_000).unwrap();
    let mut count = |rounds: u64| {
        let start = addresses.as_slice().len();
        let count = count_into(100_000, &mut addresses, || run(black_box(rounds))).unwrap();
        let places = start..addresses.as_slice().len();
        assert_eq!(places.len() as u64, count);
        places
    };
    count(less); // what happens only once
    let (more, less) = (count(more), count(less));
    let difference = more.len() as i64 - less.len() as i64;
    let tally = Tally::new(&mut addresses, &[(1, more), (-1, less)]).unwrap();
    assert_eq!(tally.instructions(), difference);
    (Split::new(&tally, 1, &Loaded::now()), difference)
}

#[test]
fn each_function_has_its_own() {
    in_turn(|| {
        let (split, all) = split(30, 10, outer);
        let functions = split.functions(&mut Names::new());
        assert_eq!(functions.iter().map(|function| function.instructions).sum::<i64>(), all);
        // Twenty rounds more, of the same instructions, and none in `outer`. Without optimization, `inner` calls others.
        let of = |name: &str| {
            let within = |it: &&Function| {
                it.name.ends_with(name) || it.within.iter().any(|it| it.ends_with(name))
            };
            functions.iter().filter(within).map(|function| function.instructions).sum::<i64>()
        };
        let inner = of("functions::inner");
        assert!(inner >= 20 && inner % 20 == 0 && of("functions::outer") == 0, "{functions:?}");
        assert_eq!(Split::from_text(&split.to_string()), Some(split));
    });
}

/// A stripped library has symbols of what it exports alone. The nearest one is not the function.
#[test]
fn a_name_is_said_where_it_is_sure() {
    fn length(runs: u64) -> u64 {
        let text = c"a text that is not so long";
        // SAFETY: a text that ends with 0.
        (0..runs).map(|_| unsafe { libc::strlen(black_box(text.as_ptr())) } as u64).sum()
    }
    in_turn(|| {
        let (split, _) = split(30, 10, length);
        let functions = split.functions(&mut Names::new());
        let is_sure = |name: &str| name.contains("strlen") || name == "libc.so.6, no symbol";
        assert!(functions.iter().any(|it| is_sure(&it.name)), "{functions:?}");
        // What else the C library exports is not called.
        let is_of_c = |name: &str| !name.contains("::") && !name.contains(".rs)");
        assert!(
            functions.iter().all(|it| is_sure(&it.name) || !is_of_c(&it.name)),
            "{functions:?}"
        );
    });
}
