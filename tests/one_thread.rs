//! What reads counters stays on its thread: this does not compile if any of it is `Send` or `Sync`.
#![allow(missing_docs)]

use rdpmc::{Clock, Counter, Event, Group, Ordered, Region, Start};

/// Where a type has the trait, two implementations fit, and the compiler cannot tell which is meant.
macro_rules! is_not {
    ($marker:ident: $($type:ty),+) => {
        const _: () = {
            #[allow(dead_code)]
            trait Ambiguous<Which> {
                const FOUND: () = ();
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $marker> Ambiguous<u8> for T {}
            $(let () = <$type as Ambiguous<_>>::FOUND;)+
        };
    };
}

macro_rules! stays {
    ($($type:ty),+ $(,)?) => {
        is_not!(Send: $($type),+);
        is_not!(Sync: $($type),+);
    };
}

stays!(Counter, Group<2>, Clock);
stays!(Ordered<'static, Counter>, Ordered<'static, Group<2>>, Ordered<'static, Clock>);
stays!(Region<'static, 1>, Region<'static, 2, true>, Start<'static, 2>);
#[cfg(feature = "criterion")]
stays!(rdpmc::criterion::Counter, rdpmc::criterion::Clock);
#[cfg(feature = "criterion")]
stays!(rdpmc::criterion::Along<rdpmc::criterion::Counter, 2>);

/// What is counted, and what has been, can go anywhere.
#[test]
fn plain_values_go_anywhere() {
    fn goes_anywhere<T: Send + Sync + Clone + 'static>() {}
    goes_anywhere::<Event>();
    goes_anywhere::<rdpmc::Reading>();
    goes_anywhere::<rdpmc::Samples<2>>();
    goes_anywhere::<rdpmc::Overhead<2>>();
    goes_anywhere::<rdpmc::Conversion>();
    goes_anywhere::<rdpmc::Error>();
    goes_anywhere::<rdpmc::Report>();
    goes_anywhere::<rdpmc::Builder<Event>>();
}
