//! Lists that grow for the rest of the process, without a lock: a fork would leave the child one that nobody releases.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Values that are never removed, the newest first. A signal handler may read it at any point.
pub(crate) struct List<T: 'static> {
    /// Null, or from `Box::into_raw` and never freed.
    newest: AtomicPtr<Node<T>>,
}

struct Node<T: 'static> {
    value: T,
    older: Option<&'static Node<T>>,
}

impl<T: Send + Sync> List<T> {
    pub(crate) const fn new() -> List<T> {
        List { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    fn node(&self) -> Option<&'static Node<T>> {
        // Pairs with the exchange in `push_after`: the node's fields are written before.
        // SAFETY: null, or a node that is never freed, and never written once it is published.
        unsafe { self.newest.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the newest value.
    pub(crate) fn newest(&self) -> Option<&'static T> {
        self.node().map(|node| &node.value)
    }

    /// Returns all values, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        std::iter::successors(self.node(), |node| node.older).map(|node| &node.value)
    }

    /// Adds a value.
    pub(crate) fn push(&self, mut value: T) {
        while let Err(again) = self.push_after(self.newest(), value) {
            value = again;
        }
    }

    /// Removes the values, which are not freed.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        self.newest.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Adds a value if `newest` is still the newest. Otherwise returns it.
    pub(crate) fn push_after(&self, newest: Option<&'static T>, value: T) -> Result<(), T> {
        let older = self.node();
        let address = |value: Option<&T>| value.map_or(ptr::null(), ptr::from_ref);
        if address(older.map(|node| &node.value)) != address(newest) {
            return Err(value);
        }
        let mine = Box::into_raw(Box::new(Node { value, older }));
        let expected = older.map_or(ptr::null_mut(), |older| ptr::from_ref(older).cast_mut());
        // Nodes are never freed, so an equal address is the same node. Release pairs with the load in `node`.
        match self.newest.compare_exchange(expected, mine, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: from Box::into_raw above, and not published.
            Err(_) => Err(unsafe { Box::from_raw(mine) }.value),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_threads_push_is_there_once_and_in_their_order() {
        static LIST: List<(u32, u32)> = List::new();
        let push = |thread| (0..1_000).for_each(|number| LIST.push((thread, number)));
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| drop(scope.spawn(move || push(thread))));
            // A reader meanwhile finds each thread's values in order.
            while LIST.iter().count() < 4_000 {
                let mut next = [u32::MAX; 4];
                for (thread, number) in LIST.iter() {
                    let next = next.get_mut(*thread as usize).unwrap();
                    assert!(*next == u32::MAX || *next == number + 1);
                    *next = *number;
                }
            }
        });
        assert_eq!(LIST.iter().count(), 4_000);
    }

    #[test]
    fn only_after_the_newest() {
        static LIST: List<u32> = List::new();
        assert_eq!(LIST.push_after(None, 1), Ok(()));
        assert_eq!(LIST.push_after(None, 2), Err(2));
        let one = LIST.newest();
        assert_eq!(LIST.push_after(one, 3), Ok(()));
        assert_eq!(LIST.push_after(one, 4), Err(4));
        assert!(LIST.iter().eq(&[3, 1]));
    }
}
