// Written by tests/events from sources/arm.txt.

use super::{Model, Row, Vendor};
use crate::encoding::Layout;
use crate::pool::Pool;

pub(super) static ARM: Vendor = Vendor {
    layout: Layout::Arm,
    pool: Pool {
        events: include_bytes!("../../data/arm.events"),
        blocks: include_bytes!("../../data/arm.blocks"),
        #[cfg(feature = "descriptions")]
        words: include_bytes!("../../data/arm.words"),
        #[cfg(feature = "descriptions")]
        texts: include_bytes!("../../data/arm.texts"),
    },
    lists: include_bytes!("../../data/arm.tables"),
    rows: &ROWS,
};

static ROWS: [Row; 39] = [
    Row { name: "armv8", aliases: &[], models: &[], list: (0, 463) },
    Row { name: "armv9", aliases: &[], models: &[], list: (463, 939) },
    Row { name: "cortex_a32", aliases: &[], models: &[Model::of_part(0x41d01)], list: (939, 974) },
    Row { name: "cortex_a34", aliases: &[], models: &[Model::of_part(0x41d02)], list: (974, 1009) },
    Row {
        name: "cortex_a35",
        aliases: &[],
        models: &[Model::of_part(0x41d04)],
        list: (1009, 1049),
    },
    Row {
        name: "cortex_a510",
        aliases: &[],
        models: &[Model::of_part(0x41d46)],
        list: (1049, 1193),
    },
    Row {
        name: "cortex_a520",
        aliases: &[],
        models: &[Model::of_part(0x41d80)],
        list: (1193, 1373),
    },
    Row {
        name: "cortex_a53",
        aliases: &[],
        models: &[Model::of_part(0x41d03)],
        list: (1373, 1408),
    },
    Row {
        name: "cortex_a55",
        aliases: &[],
        models: &[Model::of_part(0x41d05)],
        list: (1408, 1519),
    },
    Row {
        name: "cortex_a57",
        aliases: &[],
        models: &[Model::of_part(0x41d07)],
        list: (1519, 1603),
    },
    Row {
        name: "cortex_a65",
        aliases: &[],
        models: &[Model::of_part(0x41d06)],
        list: (1603, 1732),
    },
    Row {
        name: "cortex_a65ae",
        aliases: &[],
        models: &[Model::of_part(0x41d43)],
        list: (1732, 1861),
    },
    Row {
        name: "cortex_a710",
        aliases: &[],
        models: &[Model::of_part(0x41d47)],
        list: (1861, 2012),
    },
    Row {
        name: "cortex_a715",
        aliases: &[],
        models: &[Model::of_part(0x41d4d)],
        list: (2012, 2160),
    },
    Row {
        name: "cortex_a72",
        aliases: &[],
        models: &[Model::of_part(0x41d08)],
        list: (2160, 2244),
    },
    Row {
        name: "cortex_a720",
        aliases: &[],
        models: &[Model::of_part(0x41d81)],
        list: (2244, 2437),
    },
    Row {
        name: "cortex_a73",
        aliases: &[],
        models: &[Model::of_part(0x41d09)],
        list: (2437, 2517),
    },
    Row {
        name: "cortex_a75",
        aliases: &[],
        models: &[Model::of_part(0x41d0a)],
        list: (2517, 2621),
    },
    Row {
        name: "cortex_a76",
        aliases: &[],
        models: &[Model::of_part(0x41d0b)],
        list: (2621, 2728),
    },
    Row {
        name: "cortex_a76ae",
        aliases: &[],
        models: &[Model::of_part(0x41d0e)],
        list: (2728, 2835),
    },
    Row {
        name: "cortex_a77",
        aliases: &[],
        models: &[Model::of_part(0x41d0d)],
        list: (2835, 2942),
    },
    Row {
        name: "cortex_a78",
        aliases: &[],
        models: &[Model::of_part(0x41d41)],
        list: (2942, 3060),
    },
    Row {
        name: "cortex_a78c",
        aliases: &[],
        models: &[Model::of_part(0x41d4b)],
        list: (3060, 3178),
    },
    Row {
        name: "cortex_r52",
        aliases: &[],
        models: &[Model::of_part(0x41d13)],
        list: (3178, 3273),
    },
    Row {
        name: "cortex_r82",
        aliases: &[],
        models: &[Model::of_part(0x41d15)],
        list: (3273, 3478),
    },
    Row { name: "cortex_x1", aliases: &[], models: &[Model::of_part(0x41d44)], list: (3478, 3600) },
    Row {
        name: "cortex_x1c",
        aliases: &[],
        models: &[Model::of_part(0x41d4c)],
        list: (3600, 3718),
    },
    Row { name: "cortex_x2", aliases: &[], models: &[Model::of_part(0x41d48)], list: (3718, 3869) },
    Row { name: "cortex_x3", aliases: &[], models: &[Model::of_part(0x41d4e)], list: (3869, 4024) },
    Row { name: "cortex_x4", aliases: &[], models: &[Model::of_part(0x41d82)], list: (4024, 4268) },
    Row {
        name: "neoverse_e1",
        aliases: &["arm_e1"],
        models: &[Model::of_part(0x41d4a)],
        list: (4268, 4397),
    },
    Row {
        name: "neoverse_n1",
        aliases: &["arm_n1"],
        models: &[Model::of_part(0x41d0c)],
        list: (4397, 4507),
    },
    Row {
        name: "neoverse_n2",
        aliases: &["arm_n2"],
        models: &[Model::of_part(0x41d49), Model::of_part(0x6dd49)],
        list: (4507, 4662),
    },
    Row {
        name: "neoverse_n3",
        aliases: &["arm_n3"],
        models: &[Model::of_part(0x41d8e)],
        list: (4662, 4863),
    },
    Row {
        name: "neoverse_v1",
        aliases: &["arm_v1"],
        models: &[Model::of_part(0x41d40)],
        list: (4863, 4995),
    },
    Row {
        name: "neoverse_v2",
        aliases: &["arm_v2"],
        models: &[Model::of_part(0x41d4f)],
        list: (4995, 5150),
    },
    Row {
        name: "neoverse_v3",
        aliases: &["arm_v3"],
        models: &[Model::of_part(0x41d84)],
        list: (5150, 5379),
    },
    Row {
        name: "neoverse_v3ae",
        aliases: &["arm_v3ae"],
        models: &[Model::of_part(0x41d83)],
        list: (5379, 5608),
    },
    Row { name: "rainier", aliases: &[], models: &[Model::of_part(0x3f412)], list: (5608, 5765) },
];
