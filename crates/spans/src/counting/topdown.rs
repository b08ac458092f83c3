//! The top-down method of `rdpmc-events`, which is optional. Without it, stand-ins take its place, and nothing makes one.

#[cfg(feature = "topdown")]
pub(crate) use rdpmc_events::topdown::{Formula, Level1};
#[cfg(not(feature = "topdown"))]
pub(crate) use stand_ins::{Formula, Level1};

#[cfg(not(feature = "topdown"))]
mod stand_ins {
    use rdpmc::Event;

    #[derive(Clone, Debug)]
    pub(crate) struct Formula;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Level1 {
        parts: [(&'static str, Part); 4],
        pub(crate) rest: f64,
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Part {
        pub(crate) fraction: f64,
    }

    impl Formula {
        pub(crate) fn events(&self) -> &[Event] {
            &[]
        }

        pub(crate) fn is_of_this_thread(&self) -> bool {
            true
        }

        pub(crate) fn level1(&self, _counts: &[u64]) -> Option<Level1> {
            None
        }
    }

    impl Level1 {
        pub(crate) fn parts(&self) -> [(&'static str, Part); 4] {
            self.parts
        }

        pub(crate) fn largest(&self) -> (&'static str, Part) {
            let [first, ..] = self.parts;
            first
        }

        pub(crate) fn disagreement(&self) -> Option<String> {
            None
        }

        pub(crate) fn rest_is(&self) -> Option<&'static str> {
            None
        }
    }
}
