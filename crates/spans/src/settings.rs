//! What is recorded, and where.

use crate::record::MAX_EVENTS;
use crate::session;
use crate::spans::{MAX_RECORDS, Spans, StartError};
use rdpmc::error::NameError;
use rdpmc::{Event, IntoEvent};

/// The settings of a recording, to be [started](Settings::start).
///
/// ```
/// use rdpmc::Event;
/// use rdpmc_spans::{Settings, span};
///
/// let events = [Event::CYCLES, Event::INSTRUCTIONS];
/// let mut spans = Settings::new().events(&events).start()?;
/// {
///     let _span = span!("physics");
/// }
/// println!("{}", spans.report());
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) events: Vec<Event>,
    /// Why requested names are not events here.
    pub(crate) unknown: Vec<NameError>,
    pub(crate) counters: Counters,
    pub(crate) storage: Storage,
    pub(crate) kept: usize,
}

/// Whether spans have counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counters {
    /// Counts, unless reads are trapped. On some virtual machines they are, and take microseconds.
    #[default]
    IfCheap,
    /// Counts, if user space can read the counters at any cost.
    Always,
    /// Time only.
    Never,
}

/// Where a thread records its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// In a ring of this many records, which [`Spans::collect`] empties. A record that finds the ring full is dropped,
    /// and counted as such. A record takes 40 bytes and 8 for each event.
    Ring {
        /// The number of records. 0 counts as 1.
        records: usize,
    },
    /// In histograms of each site, which take 58 KiB for the time, and with counters 58 KiB more and as much for each event. They need not be emptied, and
    /// keep no single records: traces are empty, and counts include the cost of the span itself.
    Histograms,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new()
    }
}

impl Settings {
    /// Returns the settings of a recording of time only, in rings of 16,384 records, which keeps a million records for
    /// traces.
    pub fn new() -> Settings {
        Settings {
            events: Vec::new(),
            unknown: Vec::new(),
            counters: Counters::IfCheap,
            storage: Storage::Ring { records: 1 << 14 },
            kept: 1_000_000,
        }
    }

    /// Counts these events, or the events of these names, in every span: at most 8, on every thread.
    ///
    /// Events that a thread cannot open are left out, and the report has the reason. So are names that need a PMU which this
    /// machine lacks. If user space cannot read one of the others, such as a software event, spans have the time only.
    #[must_use]
    pub fn events<E>(mut self, events: &[E]) -> Settings
    where
        for<'a> &'a E: IntoEvent,
    {
        (self.events, self.unknown) = (Vec::new(), Vec::new());
        for event in events {
            match event.into_event() {
                Ok(event) => self.events.push(event),
                Err(why) => self.unknown.push(why),
            }
        }
        self
    }

    /// Sets whether spans have counts.
    #[must_use]
    pub fn counters(mut self, counters: Counters) -> Settings {
        self.counters = counters;
        self
    }

    /// Sets where threads record.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Settings {
        self.storage = storage;
        self
    }

    /// Keeps this many records for [`Spans::write_trace`]: the latest of all threads. Earlier records are only in the
    /// report, and the trace has their number. A record takes 112 bytes.
    #[must_use]
    pub fn keep(mut self, records: usize) -> Settings {
        self.kept = records;
        self
    }

    /// Turns spans on in the whole process.
    ///
    /// Also calls [`rdpmc::contain_faults`], so that a read that faults does not kill the process.
    ///
    /// # Errors
    /// - [`StartError::Running`] if the result of another call is still alive.
    /// - [`StartError::TooManyEvents`] for more than 8 events.
    /// - [`StartError::Name`] for a name that is not that of an event, unless only the PMU is missing that it needs.
    /// - [`StartError::RingTooLarge`] for more than 2^28 records.
    /// - [`StartError::Clock`] if there is no clock: the target is not Linux.
    pub fn start(self) -> Result<Spans, StartError> {
        let events = self.events.len() + self.unknown.len();
        if events > MAX_EVENTS {
            return Err(StartError::TooManyEvents { events });
        }
        let is_wrong = |why: &&NameError| !matches!(why, NameError::NoPmu { .. });
        if let Some(why) = self.unknown.iter().find(is_wrong) {
            return Err(StartError::Name(why.clone()));
        }
        if let Storage::Ring { records } = self.storage {
            if records > MAX_RECORDS {
                return Err(StartError::RingTooLarge { records });
            }
        }
        let clock = rdpmc::Clock::open().map_err(StartError::Clock)?;
        // Refused only where another handler is in the way. Reads work without.
        let contained = rdpmc::contain_faults().err();
        let session = session::begin(self).ok_or(StartError::Running)?;
        Ok(Spans::new(session, &clock, contained.map(|why| why.to_string())))
    }
}
