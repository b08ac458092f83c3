//! The stack of open spans beside a model: a list of those that are open.
#![allow(unsafe_code)]

use crate::record::{Flags, MAX_DEPTH, OFFSET, Site, depth_of};
use crate::thread::Stack;
use std::cell::Cell;
use std::ptr;

static SITES: [Site; 8] = [const { Site::new("a span", file!(), line!()) }; 8];

/// A million steps of pushing, and of popping any span that was pushed, some of them twice. In all depths.
#[test]
fn any_order() {
    for is_numbered in [false, true] {
        let stack = Stack::new();
        let top = Cell::new(stack.born);
        let mut open: Vec<(u64, usize)> = Vec::new();
        let mut gone: Vec<u64> = Vec::new();
        let mut random = 1_u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % end
        };
        for step in 0..if cfg!(miri) { 700 } else { 1_000_000 } {
            // Deeper for a while, and back.
            let grows = if step / 2_000 % 2 == 0 { 70 } else { 30 };
            if below(100) < grows {
                let site = below(SITES.len());
                let Some((number, slot)) = stack.push(&top, &SITES[site]) else {
                    assert_eq!(open.len(), usize::from(MAX_DEPTH));
                    continue;
                };
                if is_numbered {
                    slot.number.set(number);
                }
                open.push((number, site));
                assert_eq!(usize::from(depth_of(number)), open.len());
                assert!(!gone.contains(&number) && number & OFFSET < OFFSET);
                continue;
            }
            // Mostly the innermost. Some are gone already.
            let place = match below(20) {
                0 if !gone.is_empty() => {
                    let number = gone[below(gone.len())];
                    assert_eq!(stack.pop(&top, number, is_numbered), None);
                    continue;
                }
                1 => below(open.len().max(1)),
                _ => open.len().saturating_sub(1),
            };
            let Some((number, _)) = open.get(place).copied() else { continue };
            // The end of a span reads the site of the one around it from there.
            let (_, slot_around) = stack.slot_and_around(number);
            // SAFETY: an open span has a slot around it.
            let site_around = unsafe { (*slot_around).site.get() };
            let around = place.checked_sub(1).map(|place| ptr::from_ref(&SITES[open[place].1]));
            assert_eq!(site_around, around.unwrap_or(ptr::null()), "step {step}");
            let flags = if place + 1 == open.len() { Flags::NONE } else { Flags::OUT_OF_ORDER };
            let popped = stack.pop(&top, number, is_numbered);
            assert_eq!(popped, Some((around.unwrap_or(ptr::null()), flags)), "step {step}");
            // Of the lost ones, the latest: others may have a later span's number in their slot, but not theirs.
            gone.extend(open.drain(place..).skip(1).map(|(number, _)| number));
            let many = gone.len().saturating_sub(100);
            gone.drain(..many);
        }
    }
}
