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

static ROWS: [Row; 14] = [
    Row {
        name: "barcelona",
        aliases: &["amd64_fam10h_barcelona"],
        models: &[Model::of_x86(16, (0x0, 0x3), (0, 15), "")],
        list: (0, 482),
    },
    Row {
        name: "shanghai",
        aliases: &["amd64_fam10h_shanghai"],
        models: &[Model::of_x86(16, (0x4, 0x7), (0, 15), "")],
        list: (482, 979),
    },
    Row {
        name: "istanbul",
        aliases: &["amd64_fam10h_istanbul"],
        models: &[Model::of_x86(16, (0x8, 0xff), (0, 15), "")],
        list: (979, 1482),
    },
    Row {
        name: "turion",
        aliases: &["amd64_fam11h_turion"],
        models: &[Model::of_x86(17, (0x0, 0xff), (0, 15), "")],
        list: (1482, 1747),
    },
    Row {
        name: "llano",
        aliases: &["amd64_fam12h_llano"],
        models: &[Model::of_x86(18, (0x0, 0xff), (0, 15), "")],
        list: (1747, 2086),
    },
    Row {
        name: "bobcat",
        aliases: &["amd64_fam14h_bobcat"],
        models: &[Model::of_x86(20, (0x0, 0xff), (0, 15), "")],
        list: (2086, 2385),
    },
    Row {
        name: "interlagos",
        aliases: &["bulldozer", "amd64_fam15h_interlagos"],
        models: &[Model::of_x86(21, (0x0, 0xff), (0, 15), "")],
        list: (2385, 2628),
    },
    Row {
        name: "jaguar",
        aliases: &["amd64_fam16h"],
        models: &[Model::of_x86(22, (0x0, 0xff), (0, 15), "")],
        list: (2628, 2878),
    },
    Row {
        name: "zen1",
        aliases: &["amdzen1", "naples", "amd64_fam17h_zen1"],
        models: &[
            Model::of_x86(23, (0x0, 0x2f), (0, 15), ""),
            Model::of_x86(24, (0x0, 0xff), (0, 15), ""),
        ],
        list: (2878, 3237),
    },
    Row {
        name: "zen2",
        aliases: &["amdzen2", "rome", "amd64_fam17h_zen2"],
        models: &[Model::of_x86(23, (0x30, 0xff), (0, 15), "")],
        list: (3237, 3622),
    },
    Row {
        name: "zen3",
        aliases: &["amdzen3", "milan", "amd64_fam19h_zen3"],
        models: &[
            Model::of_x86(25, (0x0, 0xf), (0, 15), ""),
            Model::of_x86(25, (0x20, 0x5f), (0, 15), ""),
        ],
        list: (3622, 4057),
    },
    Row {
        name: "zen4",
        aliases: &["amdzen4", "genoa", "amd64_fam19h_zen4"],
        models: &[
            Model::of_x86(25, (0x10, 0x1f), (0, 15), ""),
            Model::of_x86(25, (0x60, 0xff), (0, 15), ""),
        ],
        list: (4057, 4763),
    },
    Row {
        name: "zen5",
        aliases: &["amdzen5", "turin", "amd64_fam1ah_zen5"],
        models: &[
            Model::of_x86(26, (0x0, 0x2f), (0, 15), ""),
            Model::of_x86(26, (0x40, 0x4f), (0, 15), ""),
            Model::of_x86(26, (0x60, 0x7f), (0, 15), ""),
        ],
        list: (4763, 5556),
    },
    Row {
        name: "zen6",
        aliases: &["amdzen6", "venice"],
        models: &[
            Model::of_x86(26, (0x50, 0x5f), (0, 15), ""),
            Model::of_x86(26, (0x80, 0xaf), (0, 15), ""),
            Model::of_x86(26, (0xc0, 0xcf), (0, 15), ""),
        ],
        list: (5556, 5985),
    },
];
