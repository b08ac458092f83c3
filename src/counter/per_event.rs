//! A value for each event of a group whose size is known only at run time.

use crate::page::MAX_EVENTS;
use std::fmt;
use std::ops::Deref;

/// A value for each event of a [`DynGroup`](crate::DynGroup) or [`SyscallGroup`](crate::SyscallGroup), in the events' order. Dereferences to a
/// slice.
#[derive(Clone, Copy)]
pub struct PerEvent<T> {
    values: [T; MAX_EVENTS],
    events: usize,
}

impl<T: Copy + Default> PerEvent<T> {
    pub(super) fn from_array<const N: usize>(values: [T; N]) -> PerEvent<T> {
        let mut all = [T::default(); MAX_EVENTS];
        for (into, value) in all.iter_mut().zip(values) {
            *into = value;
        }
        PerEvent { values: all, events: N }
    }
}

impl<T: Copy> PerEvent<T> {
    /// The first values of a slice. `none` fills what is not used.
    pub(crate) fn of_slice(values: &[T], none: T) -> PerEvent<T> {
        let mut all = [none; MAX_EVENTS];
        for (into, value) in all.iter_mut().zip(values) {
            *into = *value;
        }
        PerEvent { values: all, events: values.len().min(MAX_EVENTS) }
    }

    /// Returns what `change` makes of each value.
    pub(crate) fn map<U>(self, change: impl FnMut(T) -> U) -> PerEvent<U> {
        PerEvent { values: self.values.map(change), events: self.events }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().take(self.events)
    }
}

impl<T: Copy + Default> FromIterator<T> for PerEvent<T> {
    /// Takes the first 8 values.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> PerEvent<T> {
        let mut all = PerEvent { values: [T::default(); MAX_EVENTS], events: 0 };
        for (into, value) in all.values.iter_mut().zip(values) {
            *into = value;
            all.events += 1;
        }
        all
    }
}

impl<T> Deref for PerEvent<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.values.get(..self.events).unwrap_or(&self.values)
    }
}

impl<T> IntoIterator for PerEvent<T> {
    type Item = T;
    type IntoIter = std::iter::Take<std::array::IntoIter<T, MAX_EVENTS>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter().take(self.events)
    }
}

impl<'a, T> IntoIterator for &'a PerEvent<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for PerEvent<T> {
    fn eq(&self, other: &PerEvent<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for PerEvent<T> {}

impl<T: fmt::Debug> fmt::Debug for PerEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
