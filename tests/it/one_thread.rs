//! Types that read counters stay on their thread: this does not compile if one of them is `Send` or `Sync`.

use rdpmc::region::Start;
use rdpmc::{Clock, Counter, DynGroup, Event, Group, Mock, Region};

/// If a type has the trait, two implementations apply, and the compiler cannot choose.
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

stays!(Counter, Group<2>, DynGroup, Clock, Mock);
stays!(Region<'static, 1>, Region<'static, 2, true>, Start<'static, 2>, Start<'static, 2, true>);

/// Events and counts can go anywhere.
#[test]
fn plain_values_go_anywhere() {
    fn goes_anywhere<T: Send + Sync + Clone + 'static>() {}
    goes_anywhere::<Event>();
    goes_anywhere::<rdpmc::Reading>();
    goes_anywhere::<rdpmc::clock::Conversion>();
    goes_anywhere::<rdpmc::Error>();
    goes_anywhere::<rdpmc::Builder<Event>>();
    goes_anywhere::<rdpmc::ReadCost>();
}
