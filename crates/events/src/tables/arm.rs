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
        models: &[Model::of_part(0x41d03, (0, 15)), Model::of_part(0x42100, (0, 15))],
        list: (1383, 1457),
    },
    Row {
        name: "cortex_a55",
        aliases: &["arm_ac55"],
        models: &[Model::of_part(0x41d05, (0, 15))],
        list: (1457, 1572),
    },
    Row {
        name: "cortex_a57",
        aliases: &["arm_ac57"],
        models: &[Model::of_part(0x41d07, (0, 15))],
        list: (1572, 1724),
    },
    Row {
        name: "cortex_a65",
        aliases: &["arm_ac65"],
        models: &[Model::of_part(0x41d06, (0, 15))],
        list: (1724, 1855),
    },
    Row {
        name: "cortex_a65ae",
        aliases: &[],
        models: &[Model::of_part(0x41d43, (0, 15))],
        list: (1855, 1986),
    },
    Row {
        name: "cortex_a710",
        aliases: &[],
        models: &[Model::of_part(0x41d47, (0, 15))],
        list: (1986, 2138),
    },
    Row {
        name: "cortex_a715",
        aliases: &[],
        models: &[Model::of_part(0x41d4d, (0, 15))],
        list: (2138, 2287),
    },
    Row {
        name: "cortex_a72",
        aliases: &["arm_ac72"],
        models: &[Model::of_part(0x41d08, (0, 15))],
        list: (2287, 2439),
    },
    Row {
        name: "cortex_a720",
        aliases: &[],
        models: &[Model::of_part(0x41d81, (0, 15))],
        list: (2439, 2632),
    },
    Row {
        name: "cortex_a73",
        aliases: &["arm_ac73"],
        models: &[Model::of_part(0x41d09, (0, 15))],
        list: (2632, 2714),
    },
    Row {
        name: "cortex_a75",
        aliases: &["arm_ac75"],
        models: &[Model::of_part(0x41d0a, (0, 15))],
        list: (2714, 2819),
    },
    Row {
        name: "cortex_a76",
        aliases: &["arm_ac76"],
        models: &[Model::of_part(0x41d0b, (0, 15))],
        list: (2819, 2929),
    },
    Row {
        name: "cortex_a76ae",
        aliases: &[],
        models: &[Model::of_part(0x41d0e, (0, 15))],
        list: (2929, 3038),
    },
    Row {
        name: "cortex_a77",
        aliases: &["arm_ac77"],
        models: &[Model::of_part(0x41d0d, (0, 15))],
        list: (3038, 3147),
    },
    Row {
        name: "cortex_a78",
        aliases: &["arm_ac78"],
        models: &[Model::of_part(0x41d41, (0, 15))],
        list: (3147, 3267),
    },
    Row {
        name: "cortex_a78c",
        aliases: &[],
        models: &[Model::of_part(0x41d4b, (0, 15))],
        list: (3267, 3387),
    },
    Row {
        name: "cortex_r52",
        aliases: &[],
        models: &[Model::of_part(0x41d13, (0, 15))],
        list: (3387, 3485),
    },
    Row {
        name: "cortex_r82",
        aliases: &[],
        models: &[Model::of_part(0x41d15, (0, 15))],
        list: (3485, 3691),
    },
    Row {
        name: "cortex_x1",
        aliases: &[],
        models: &[Model::of_part(0x41d44, (0, 15))],
        list: (3691, 3815),
    },
    Row {
        name: "cortex_x1c",
        aliases: &[],
        models: &[Model::of_part(0x41d4c, (0, 15))],
        list: (3815, 3935),
    },
    Row {
        name: "cortex_x2",
        aliases: &[],
        models: &[Model::of_part(0x41d48, (0, 15))],
        list: (3935, 4087),
    },
    Row {
        name: "cortex_x3",
        aliases: &[],
        models: &[Model::of_part(0x41d4e, (0, 15))],
        list: (4087, 4243),
    },
    Row {
        name: "cortex_x4",
        aliases: &[],
        models: &[Model::of_part(0x41d82, (0, 15))],
        list: (4243, 4487),
    },
    Row {
        name: "neoverse_e1",
        aliases: &["arm_e1"],
        models: &[Model::of_part(0x41d4a, (0, 15))],
        list: (4487, 4618),
    },
    Row {
        name: "neoverse_n1",
        aliases: &["arm_n1"],
        models: &[Model::of_part(0x41d0c, (0, 15))],
        list: (4618, 4738),
    },
    Row {
        name: "neoverse_n2",
        aliases: &["arm_n2"],
        models: &[Model::of_part(0x41d49, (0, 15)), Model::of_part(0x6dd49, (0, 15))],
        list: (4738, 4906),
    },
    Row {
        name: "neoverse_n3",
        aliases: &["arm_n3"],
        models: &[Model::of_part(0x41d8e, (0, 15))],
        list: (4906, 5108),
    },
    Row {
        name: "neoverse_v1",
        aliases: &["arm_v1"],
        models: &[Model::of_part(0x41d40, (0, 15))],
        list: (5108, 5250),
    },
    Row {
        name: "neoverse_v2",
        aliases: &["arm_v2"],
        models: &[Model::of_part(0x41d4f, (0, 15))],
        list: (5250, 5417),
    },
    Row {
        name: "neoverse_v3",
        aliases: &["arm_v3"],
        models: &[Model::of_part(0x41d84, (0, 15))],
        list: (5417, 5659),
    },
    Row {
        name: "neoverse_v3ae",
        aliases: &["arm_v3ae"],
        models: &[Model::of_part(0x41d83, (0, 15))],
        list: (5659, 5901),
    },
    Row {
        name: "rainier",
        aliases: &[],
        models: &[Model::of_part(0x3f412, (0, 15))],
        list: (5901, 6060),
    },
    Row {
        name: "a64fx",
        aliases: &["arm_a64fx"],
        models: &[Model::of_part(0x46001, (0, 15))],
        list: (6060, 6253),
    },
    Row {
        name: "ampereone",
        aliases: &[],
        models: &[Model::of_part(0xc0ac3, (0, 15))],
        list: (6253, 6467),
    },
    Row {
        name: "ampereonex",
        aliases: &[],
        models: &[Model::of_part(0xc0ac4, (0, 15))],
        list: (6467, 6733),
    },
    Row {
        name: "emag",
        aliases: &[],
        models: &[Model::of_part(0x50000, (3, 15))],
        list: (6733, 6840),
    },
    Row {
        name: "kunpeng",
        aliases: &["hip08", "tsv110", "arm_kunpeng"],
        models: &[Model::of_part(0x48d01, (0, 15))],
        list: (6840, 6964),
    },
    Row {
        name: "monaka",
        aliases: &["arm_monaka"],
        models: &[Model::of_part(0x46003, (0, 15))],
        list: (6964, 7475),
    },
    Row {
        name: "olympus",
        aliases: &["t410"],
        models: &[Model::of_part(0x4e010, (0, 15))],
        list: (7475, 7939),
    },
    Row {
        name: "thunderx2",
        aliases: &["arm_thunderx2"],
        models: &[Model::of_part(0x430af, (0, 15)), Model::of_part(0x42516, (0, 15))],
        list: (7939, 8101),
    },
    Row {
        name: "xgene",
        aliases: &["arm_xgene"],
        models: &[Model::of_part(0x50000, (0, 2))],
        list: (8101, 8202),
    },
];
