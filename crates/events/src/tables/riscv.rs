// Written by tests/events from sources/riscv.txt.

use super::{Model, Row, Vendor};
use crate::encoding::Layout;
use crate::pool::Pool;

pub(super) static RISCV: Vendor = Vendor {
    layout: Layout::RiscV,
    pool: Pool {
        events: include_bytes!("../../data/riscv.events"),
        blocks: include_bytes!("../../data/riscv.blocks"),
        #[cfg(feature = "descriptions")]
        words: include_bytes!("../../data/riscv.words"),
        #[cfg(feature = "descriptions")]
        texts: include_bytes!("../../data/riscv.texts"),
    },
    lists: include_bytes!("../../data/riscv.tables"),
    rows: &ROWS,
};

static ROWS: [Row; 9] = [
    Row {
        name: "andes_ax45",
        aliases: &["ax45"],
        models: &[Model::of_pattern("31e-8000000000008a45-")],
        list: (0, 73),
    },
    Row {
        name: "openhwgroup_cva6",
        aliases: &["cva6"],
        models: &[Model::of_pattern("602-3-0$")],
        list: (73, 117),
    },
    Row {
        name: "sifive_bullet",
        aliases: &["sifive_u74", "u74"],
        models: &[Model::of_pattern("489-8000000000000007-")],
        list: (117, 174),
    },
    Row {
        name: "sifive_bullet_07",
        aliases: &[],
        models: &[Model::of_pattern("489-8000000000000[1-9a-e]07-[78ac]")],
        list: (174, 242),
    },
    Row {
        name: "sifive_bullet_0d",
        aliases: &[],
        models: &[Model::of_pattern("489-8000000000000[1-9a-e]07-d")],
        list: (242, 312),
    },
    Row {
        name: "sifive_p550",
        aliases: &["p550"],
        models: &[Model::of_pattern("489-8000000000000008-")],
        list: (312, 372),
    },
    Row {
        name: "sifive_p650",
        aliases: &["p650"],
        models: &[Model::of_pattern("489-8000000000000[1-6]08-[9b]")],
        list: (372, 445),
    },
    Row {
        name: "starfive_dubhe_80",
        aliases: &["dubhe_80"],
        models: &[Model::of_pattern("67e-80000000db0000[89]0-")],
        list: (445, 501),
    },
    Row {
        name: "thead_c900_legacy",
        aliases: &["thead_c906", "thead_c910"],
        models: &[
            Model::of_pattern("5b7-0-0$"),
            Model::of_pattern("5b7-80000000090c0d00-2047000$"),
        ],
        list: (501, 565),
    },
];
