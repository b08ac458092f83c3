//! Pages beside the view of them, as a handle has them.

#![allow(clippy::unwrap_used)]

use crate::kernel::Descriptor;
use crate::page::Pages;
use crate::page::fork;
use crate::page::reader::{Timed, View};
use std::ops::Deref;

pub(super) fn map(events: &[&Descriptor]) -> Pages {
    Pages::map(events, fork::process().unwrap()).unwrap().unwrap()
}

/// The pages of `N` events, and the view of them.
pub(super) struct Reader<const N: usize> {
    pub(super) view: View,
    pub(super) pages: Pages,
}

impl<const N: usize> Deref for Reader<N> {
    type Target = View;
    #[inline(always)]
    fn deref(&self) -> &View {
        &self.view
    }
}

impl<const N: usize> Reader<N> {
    pub(super) fn new(pages: Pages) -> Reader<N> {
        // SAFETY: the view is kept beside the pages.
        Reader { view: unsafe { View::of_pages(&pages) }.unwrap(), pages }
    }

    pub(super) fn none() -> Reader<N> {
        Reader { view: View::none(), pages: Pages::empty() }
    }

    #[inline(always)]
    pub(super) fn counts(&self) -> Option<[u64; N]> {
        self.view.counts()
    }

    #[inline(always)]
    pub(super) fn timed<const TIMED: bool>(&self) -> Option<Timed<N>> {
        self.view.timed::<N, TIMED>()
    }
}
