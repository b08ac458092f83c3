// Written by tests/events from sources/amd.txt.

use super::{Model, Row, Vendor};
use crate::encoding::Layout;
use crate::pool::Pool;

pub(super) static AMD: Vendor = Vendor {
    layout: Layout::Amd,
    pool: Pool {
        events: include_bytes!("../../data/amd.events"),
        blocks: include_bytes!("../../data/amd.blocks"),
        #[cfg(feature = "descriptions")]
        words: include_bytes!("../../data/amd.words"),
        #[cfg(feature = "descriptions")]
        texts: include_bytes!("../../data/amd.texts"),
    },
    lists: include_bytes!("../../data/amd.tables"),
    rows: &ROWS,
};

static ROWS: [Row; 13] = [
    Row {
        name: "barcelona",
        aliases: &["amd64_fam10h_barcelona"],
        models: &[Model { family: 16, models: (0x0, 0x3), steppings: (0, 15), pmu: "" }],
        list: (0, 482),
    },
    Row {
        name: "shanghai",
        aliases: &["amd64_fam10h_shanghai"],
        models: &[Model { family: 16, models: (0x4, 0x7), steppings: (0, 15), pmu: "" }],
        list: (482, 979),
    },
    Row {
        name: "istanbul",
        aliases: &["amd64_fam10h_istanbul"],
        models: &[Model { family: 16, models: (0x8, 0xff), steppings: (0, 15), pmu: "" }],
        list: (979, 1482),
    },
    Row {
        name: "turion",
        aliases: &["amd64_fam11h_turion"],
        models: &[Model { family: 17, models: (0x0, 0xff), steppings: (0, 15), pmu: "" }],
        list: (1482, 1747),
    },
    Row {
        name: "llano",
        aliases: &["amd64_fam12h_llano"],
        models: &[Model { family: 18, models: (0x0, 0xff), steppings: (0, 15), pmu: "" }],
        list: (1747, 2085),
    },
    Row {
        name: "bobcat",
        aliases: &["amd64_fam14h_bobcat"],
        models: &[Model { family: 20, models: (0x0, 0xff), steppings: (0, 15), pmu: "" }],
        list: (2085, 2384),
    },
    Row {
        name: "interlagos",
        aliases: &["bulldozer", "amd64_fam15h_interlagos"],
        models: &[Model { family: 21, models: (0x0, 0xff), steppings: (0, 15), pmu: "" }],
        list: (2384, 2625),
    },
    Row {
        name: "jaguar",
        aliases: &["amd64_fam16h"],
        models: &[Model { family: 22, models: (0x0, 0xff), steppings: (0, 15), pmu: "" }],
        list: (2625, 2874),
    },
    Row {
        name: "zen1",
        aliases: &["amdzen1", "amd64_fam17h_zen1"],
        models: &[
            Model { family: 23, models: (0x0, 0x2f), steppings: (0, 15), pmu: "" },
            Model { family: 24, models: (0x0, 0xff), steppings: (0, 15), pmu: "" },
        ],
        list: (2874, 3146),
    },
    Row {
        name: "zen2",
        aliases: &["amdzen2", "amd64_fam17h_zen2"],
        models: &[Model { family: 23, models: (0x30, 0xff), steppings: (0, 15), pmu: "" }],
        list: (3146, 3419),
    },
    Row {
        name: "zen3",
        aliases: &["amdzen3", "amd64_fam19h_zen3"],
        models: &[
            Model { family: 25, models: (0x0, 0xf), steppings: (0, 15), pmu: "" },
            Model { family: 25, models: (0x20, 0x5f), steppings: (0, 15), pmu: "" },
        ],
        list: (3419, 3729),
    },
    Row {
        name: "zen4",
        aliases: &["amdzen4", "amd64_fam19h_zen4"],
        models: &[
            Model { family: 25, models: (0x10, 0x1f), steppings: (0, 15), pmu: "" },
            Model { family: 25, models: (0x60, 0xff), steppings: (0, 15), pmu: "" },
        ],
        list: (3729, 4341),
    },
    Row {
        name: "zen5",
        aliases: &["amdzen5", "amd64_fam1ah_zen5"],
        models: &[
            Model { family: 26, models: (0x0, 0x4f), steppings: (0, 15), pmu: "" },
            Model { family: 26, models: (0x60, 0x7f), steppings: (0, 15), pmu: "" },
        ],
        list: (4341, 4993),
    },
];
