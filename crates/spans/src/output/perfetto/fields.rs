//! Field numbers from Perfetto's published message definitions.

/// The number of CLOCK_BOOTTIME, which Perfetto takes for the trace's time.
pub(super) const BOOTTIME: u64 = 6;

pub(super) mod trace {
    pub(in super::super) const PACKET: u32 = 1;
}

pub(super) mod packet {
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED_DATA: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const COMPRESSED_PACKETS: u32 = 50;
    pub(in super::super) const DEFAULTS: u32 = 59;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(in super::super) const FIRST_ON_SEQUENCE: u32 = 87;
}

pub(super) mod defaults {
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const CLOCK: u32 = 58;
}

pub(super) mod clock {
    pub(in super::super) const CLOCKS: u32 = 1;
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const TIMESTAMP: u32 = 2;
    pub(in super::super) const IS_INCREMENTAL: u32 = 3;
}

pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PROCESS: u32 = 3;
    pub(in super::super) const THREAD: u32 = 4;
    pub(in super::super) const PARENT: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    /// In both process and thread descriptors.
    pub(in super::super) const PID: u32 = 1;
    pub(in super::super) const TID: u32 = 2;
    pub(in super::super) const THREAD_NAME: u32 = 5;
    pub(in super::super) const PROCESS_NAME: u32 = 6;
}

pub(super) mod interned {
    pub(in super::super) const EVENT_NAMES: u32 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u32 = 3;
    pub(in super::super) const SOURCE_LOCATIONS: u32 = 4;
    pub(in super::super) const ANNOTATION_STRINGS: u32 = 29;
    /// In every interned message.
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const LINE: u32 = 4;
}

pub(super) mod event {
    pub(in super::super) const ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME_ID: u32 = 10;
    pub(in super::super) const TRACK: u32 = 11;
    pub(in super::super) const NAME: u32 = 23;
    pub(in super::super) const LOCATION_ID: u32 = 34;
    pub(in super::super) const COUNTER_VALUE: u32 = 44;
    pub(in super::super) const FLOWS: u32 = 47;

    pub(in super::super) const BEGIN: u64 = 1;
    pub(in super::super) const END: u64 = 2;
    pub(in super::super) const INSTANT: u64 = 3;
    pub(in super::super) const COUNTER: u64 = 4;
}

pub(super) mod annotation {
    pub(in super::super) const NAME_ID: u32 = 1;
    pub(in super::super) const UINT: u32 = 3;
    pub(in super::super) const DOUBLE: u32 = 5;
    pub(in super::super) const STRING: u32 = 6;
    pub(in super::super) const NAME: u32 = 10;
    pub(in super::super) const STRING_ID: u32 = 17;
}
