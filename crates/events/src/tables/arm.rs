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

static ROWS: [Row; 48] = [
    Row { name: "armv8", aliases: &[], models: &[], list: (0, 463) },
    Row { name: "armv9", aliases: &[], models: &[], list: (463, 939) },
    Row {
        name: "cortex_a32",
        aliases: &["arm_ac32"],
        models: &[Model::of_part(0x41d01, (0, 15))],
        list: (939, 977),
    },
    Row {
        name: "cortex_a34",
        aliases: &["arm_ac34"],
        models: &[Model::of_part(0x41d02, (0, 15))],
        list: (977, 1015),
    },
    Row {
        name: "cortex_a35",
        aliases: &["arm_ac35"],
        models: &[Model::of_part(0x41d04, (0, 15))],
        list: (1015, 1058),
    },
    Row {
        name: "cortex_a510",
        aliases: &[],
        models: &[Model::of_part(0x41d46, (0, 15))],
        list: (1058, 1203),
    },
    Row {
        name: "cortex_a520",
        aliases: &[],
        models: &[Model::of_part(0x41d80, (0, 15))],
        list: (1203, 1383),
    },
    Row {
        name: "cortex_a53",
        aliases: &["arm_ac53"],
        models: &[Model::of_part(0x41d03, (0, 15))],
        list: (1383, 1435),
    },
    Row {
        name: "cortex_a55",
        aliases: &["arm_ac55"],
        models: &[Model::of_part(0x41d05, (0, 15))],
        list: (1435, 1550),
    },
    Row {
        name: "cortex_a57",
        aliases: &["arm_ac57"],
        models: &[Model::of_part(0x41d07, (0, 15))],
        list: (1550, 1702),
    },
    Row {
        name: "cortex_a65",
        aliases: &["arm_ac65"],
        models: &[Model::of_part(0x41d06, (0, 15))],
        list: (1702, 1833),
    },
    Row {
        name: "cortex_a65ae",
        aliases: &[],
        models: &[Model::of_part(0x41d43, (0, 15))],
        list: (1833, 1964),
    },
    Row {
        name: "cortex_a710",
        aliases: &[],
        models: &[Model::of_part(0x41d47, (0, 15))],
        list: (1964, 2116),
    },
    Row {
        name: "cortex_a715",
        aliases: &[],
        models: &[Model::of_part(0x41d4d, (0, 15))],
        list: (2116, 2265),
    },
    Row {
        name: "cortex_a72",
        aliases: &["arm_ac72"],
        models: &[Model::of_part(0x41d08, (0, 15))],
        list: (2265, 2417),
    },
    Row {
        name: "cortex_a720",
        aliases: &[],
        models: &[Model::of_part(0x41d81, (0, 15))],
        list: (2417, 2610),
    },
    Row {
        name: "cortex_a73",
        aliases: &["arm_ac73"],
        models: &[Model::of_part(0x41d09, (0, 15))],
        list: (2610, 2692),
    },
    Row {
        name: "cortex_a75",
        aliases: &["arm_ac75"],
        models: &[Model::of_part(0x41d0a, (0, 15))],
        list: (2692, 2797),
    },
    Row {
        name: "cortex_a76",
        aliases: &["arm_ac76"],
        models: &[Model::of_part(0x41d0b, (0, 15))],
        list: (2797, 2907),
    },
    Row {
        name: "cortex_a76ae",
        aliases: &[],
        models: &[Model::of_part(0x41d0e, (0, 15))],
        list: (2907, 3016),
    },
    Row {
        name: "cortex_a77",
        aliases: &["arm_ac77"],
        models: &[Model::of_part(0x41d0d, (0, 15))],
        list: (3016, 3125),
    },
    Row {
        name: "cortex_a78",
        aliases: &["arm_ac78"],
        models: &[Model::of_part(0x41d41, (0, 15))],
        list: (3125, 3245),
    },
    Row {
        name: "cortex_a78c",
        aliases: &[],
        models: &[Model::of_part(0x41d4b, (0, 15))],
        list: (3245, 3365),
    },
    Row {
        name: "cortex_r52",
        aliases: &[],
        models: &[Model::of_part(0x41d13, (0, 15))],
        list: (3365, 3463),
    },
    Row {
        name: "cortex_r82",
        aliases: &[],
        models: &[Model::of_part(0x41d15, (0, 15))],
        list: (3463, 3669),
    },
    Row {
        name: "cortex_x1",
        aliases: &[],
        models: &[Model::of_part(0x41d44, (0, 15))],
        list: (3669, 3793),
    },
    Row {
        name: "cortex_x1c",
        aliases: &[],
        models: &[Model::of_part(0x41d4c, (0, 15))],
        list: (3793, 3913),
    },
    Row {
        name: "cortex_x2",
        aliases: &[],
        models: &[Model::of_part(0x41d48, (0, 15))],
        list: (3913, 4065),
    },
    Row {
        name: "cortex_x3",
        aliases: &[],
        models: &[Model::of_part(0x41d4e, (0, 15))],
        list: (4065, 4221),
    },
    Row {
        name: "cortex_x4",
        aliases: &[],
        models: &[Model::of_part(0x41d82, (0, 15))],
        list: (4221, 4465),
    },
    Row {
        name: "neoverse_e1",
        aliases: &["arm_e1"],
        models: &[Model::of_part(0x41d4a, (0, 15))],
        list: (4465, 4596),
    },
    Row {
        name: "neoverse_n1",
        aliases: &["arm_n1"],
        models: &[Model::of_part(0x41d0c, (0, 15))],
        list: (4596, 4716),
    },
    Row {
        name: "neoverse_n2",
        aliases: &["arm_n2"],
        models: &[Model::of_part(0x41d49, (0, 15)), Model::of_part(0x6dd49, (0, 15))],
        list: (4716, 4884),
    },
    Row {
        name: "neoverse_n3",
        aliases: &["arm_n3"],
        models: &[Model::of_part(0x41d8e, (0, 15))],
        list: (4884, 5085),
    },
    Row {
        name: "neoverse_v1",
        aliases: &["arm_v1"],
        models: &[Model::of_part(0x41d40, (0, 15))],
        list: (5085, 5227),
    },
    Row {
        name: "neoverse_v2",
        aliases: &["arm_v2"],
        models: &[Model::of_part(0x41d4f, (0, 15))],
        list: (5227, 5394),
    },
    Row {
        name: "neoverse_v3",
        aliases: &["arm_v3"],
        models: &[Model::of_part(0x41d84, (0, 15))],
        list: (5394, 5623),
    },
    Row {
        name: "neoverse_v3ae",
        aliases: &["arm_v3ae"],
        models: &[Model::of_part(0x41d83, (0, 15))],
        list: (5623, 5852),
    },
    Row {
        name: "rainier",
        aliases: &[],
        models: &[Model::of_part(0x3f412, (0, 15))],
        list: (5852, 6011),
    },
    Row {
        name: "a64fx",
        aliases: &["arm_a64fx"],
        models: &[Model::of_part(0x46001, (0, 15))],
        list: (6011, 6204),
    },
    Row {
        name: "ampereone",
        aliases: &[],
        models: &[Model::of_part(0xc0ac3, (0, 15))],
        list: (6204, 6418),
    },
    Row {
        name: "ampereonex",
        aliases: &[],
        models: &[Model::of_part(0xc0ac4, (0, 15))],
        list: (6418, 6684),
    },
    Row {
        name: "emag",
        aliases: &[],
        models: &[Model::of_part(0x50000, (3, 15))],
        list: (6684, 6791),
    },
    Row {
        name: "kunpeng",
        aliases: &["hip08", "tsv110", "arm_kunpeng"],
        models: &[Model::of_part(0x48d01, (0, 15))],
        list: (6791, 6915),
    },
    Row {
        name: "monaka",
        aliases: &["arm_monaka"],
        models: &[Model::of_part(0x46003, (0, 15))],
        list: (6915, 7426),
    },
    Row {
        name: "olympus",
        aliases: &["t410"],
        models: &[Model::of_part(0x4e010, (0, 15))],
        list: (7426, 7890),
    },
    Row {
        name: "thunderx2",
        aliases: &["arm_thunderx2"],
        models: &[Model::of_part(0x430af, (0, 15)), Model::of_part(0x42516, (0, 15))],
        list: (7890, 8052),
    },
    Row {
        name: "xgene",
        aliases: &["arm_xgene"],
        models: &[Model::of_part(0x50000, (0, 2))],
        list: (8052, 8153),
    },
];
