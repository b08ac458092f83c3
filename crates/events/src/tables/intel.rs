// Written by tests/events from sources/intel.txt.

use super::{Model, Row, Vendor};
use crate::encoding::Layout;
use crate::pool::Pool;

pub(super) static INTEL: Vendor = Vendor {
    layout: Layout::Intel,
    pool: Pool {
        events: include_bytes!("../../data/intel.events"),
        blocks: include_bytes!("../../data/intel.blocks"),
        #[cfg(feature = "descriptions")]
        words: include_bytes!("../../data/intel.words"),
        #[cfg(feature = "descriptions")]
        texts: include_bytes!("../../data/intel.texts"),
    },
    lists: include_bytes!("../../data/intel.tables"),
    rows: &ROWS,
};

static ROWS: [Row; 47] = [
    Row {
        name: "alderlake_goldencove",
        aliases: &["adl_glc"],
        models: &[
            Model { family: 6, models: (0x97, 0x97), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0x9a, 0x9a), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xb7, 0xb7), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xba, 0xba), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xbf, 0xbf), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (0, 322),
    },
    Row {
        name: "alderlake_gracemont",
        aliases: &["adl_grt"],
        models: &[
            Model { family: 6, models: (0x97, 0x97), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0x9a, 0x9a), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xb7, 0xb7), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xba, 0xba), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xbf, 0xbf), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xbe, 0xbe), steppings: (0, 15), pmu: "" },
        ],
        list: (322, 540),
    },
    Row {
        name: "arrowlake_crestmont",
        aliases: &[],
        models: &[Model {
            family: 6,
            models: (0xc5, 0xc5),
            steppings: (0, 15),
            pmu: "cpu_lowpower",
        }],
        list: (540, 744),
    },
    Row {
        name: "arrowlake_lioncove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xc5, 0xc5), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xc6, 0xc6), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (744, 1076),
    },
    Row {
        name: "arrowlake_skymont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xc5, 0xc5), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xc6, 0xc6), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (1076, 1375),
    },
    Row {
        name: "bonnell",
        aliases: &["atom", "bnl"],
        models: &[
            Model { family: 6, models: (0x1c, 0x1c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x26, 0x26), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x27, 0x27), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x36, 0x36), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x35, 0x35), steppings: (0, 15), pmu: "" },
        ],
        list: (1375, 1648),
    },
    Row {
        name: "broadwell",
        aliases: &["bdw"],
        models: &[
            Model { family: 6, models: (0x3d, 0x3d), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x47, 0x47), steppings: (0, 15), pmu: "" },
        ],
        list: (1648, 2396),
    },
    Row {
        name: "broadwellde",
        aliases: &["bdw_de"],
        models: &[Model { family: 6, models: (0x56, 0x56), steppings: (0, 15), pmu: "" }],
        list: (2396, 2742),
    },
    Row {
        name: "broadwellx",
        aliases: &["bdw_ep", "bdx"],
        models: &[Model { family: 6, models: (0x4f, 0x4f), steppings: (0, 15), pmu: "" }],
        list: (2742, 3122),
    },
    Row {
        name: "cascadelakex",
        aliases: &["clx"],
        models: &[Model { family: 6, models: (0x55, 0x55), steppings: (5, 15), pmu: "" }],
        list: (3122, 5469),
    },
    Row {
        name: "clearwaterforest",
        aliases: &["cwf"],
        models: &[Model { family: 6, models: (0xdd, 0xdd), steppings: (0, 15), pmu: "" }],
        list: (5469, 5736),
    },
    Row {
        name: "elkhartlake",
        aliases: &["ehl"],
        models: &[
            Model { family: 6, models: (0x96, 0x96), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x9c, 0x9c), steppings: (0, 15), pmu: "" },
        ],
        list: (5736, 6046),
    },
    Row {
        name: "emeraldrapids",
        aliases: &["emr"],
        models: &[Model { family: 6, models: (0xcf, 0xcf), steppings: (0, 15), pmu: "" }],
        list: (6046, 6453),
    },
    Row {
        name: "goldmont",
        aliases: &["glm"],
        models: &[
            Model { family: 6, models: (0x5c, 0x5c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x5f, 0x5f), steppings: (0, 15), pmu: "" },
        ],
        list: (6453, 6636),
    },
    Row {
        name: "goldmontplus",
        aliases: &["glp"],
        models: &[Model { family: 6, models: (0x7a, 0x7a), steppings: (0, 15), pmu: "" }],
        list: (6636, 6829),
    },
    Row {
        name: "grandridge",
        aliases: &["grr"],
        models: &[Model { family: 6, models: (0xb6, 0xb6), steppings: (0, 15), pmu: "" }],
        list: (6829, 7068),
    },
    Row {
        name: "graniterapids",
        aliases: &["gnr"],
        models: &[
            Model { family: 6, models: (0xad, 0xad), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0xae, 0xae), steppings: (0, 15), pmu: "" },
        ],
        list: (7068, 7469),
    },
    Row {
        name: "haswell",
        aliases: &["hsw"],
        models: &[
            Model { family: 6, models: (0x3c, 0x3c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x45, 0x45), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x46, 0x46), steppings: (0, 15), pmu: "" },
        ],
        list: (7469, 7852),
    },
    Row {
        name: "haswellx",
        aliases: &["hsw_ep", "hsx"],
        models: &[Model { family: 6, models: (0x3f, 0x3f), steppings: (0, 15), pmu: "" }],
        list: (7852, 8246),
    },
    Row {
        name: "icelake",
        aliases: &["icl"],
        models: &[
            Model { family: 6, models: (0x7d, 0x7d), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x7e, 0x7e), steppings: (0, 15), pmu: "" },
        ],
        list: (8246, 8592),
    },
    Row {
        name: "icelakex",
        aliases: &["icx"],
        models: &[
            Model { family: 6, models: (0x6a, 0x6a), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x6c, 0x6c), steppings: (0, 15), pmu: "" },
        ],
        list: (8592, 8958),
    },
    Row {
        name: "ivybridge",
        aliases: &["ivb"],
        models: &[Model { family: 6, models: (0x3a, 0x3a), steppings: (0, 15), pmu: "" }],
        list: (8958, 9285),
    },
    Row {
        name: "ivytown",
        aliases: &["ivb_ep", "ivt"],
        models: &[Model { family: 6, models: (0x3e, 0x3e), steppings: (0, 15), pmu: "" }],
        list: (9285, 9653),
    },
    Row {
        name: "jaketown",
        aliases: &["snb_ep", "jkt"],
        models: &[Model { family: 6, models: (0x2d, 0x2d), steppings: (0, 15), pmu: "" }],
        list: (9653, 10016),
    },
    Row {
        name: "knightslanding",
        aliases: &["knl"],
        models: &[
            Model { family: 6, models: (0x57, 0x57), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x85, 0x85), steppings: (0, 15), pmu: "" },
        ],
        list: (10016, 10406),
    },
    Row {
        name: "lunarlake_lioncove",
        aliases: &[],
        models: &[Model { family: 6, models: (0xbd, 0xbd), steppings: (0, 15), pmu: "cpu_core" }],
        list: (10406, 10740),
    },
    Row {
        name: "lunarlake_skymont",
        aliases: &[],
        models: &[Model { family: 6, models: (0xbd, 0xbd), steppings: (0, 15), pmu: "cpu_atom" }],
        list: (10740, 11053),
    },
    Row {
        name: "meteorlake_crestmont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xaa, 0xaa), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xac, 0xac), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xb5, 0xb5), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (11053, 11311),
    },
    Row {
        name: "meteorlake_redwoodcove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xaa, 0xaa), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xac, 0xac), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xb5, 0xb5), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (11311, 11637),
    },
    Row {
        name: "nehalemep",
        aliases: &["nhm", "nhm_ep"],
        models: &[
            Model { family: 6, models: (0x1e, 0x1e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x1f, 0x1f), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x1a, 0x1a), steppings: (0, 15), pmu: "" },
        ],
        list: (11637, 12472),
    },
    Row {
        name: "nehalemex",
        aliases: &["nhm_ex"],
        models: &[Model { family: 6, models: (0x2e, 0x2e), steppings: (0, 15), pmu: "" }],
        list: (12472, 13302),
    },
    Row {
        name: "novalake_arcticwolf",
        aliases: &[],
        models: &[
            Model { family: 18, models: (0x1, 0x1), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 18, models: (0x3, 0x3), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (13302, 13431),
    },
    Row {
        name: "novalake_coyotecove",
        aliases: &[],
        models: &[
            Model { family: 18, models: (0x1, 0x1), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 18, models: (0x3, 0x3), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (13431, 13759),
    },
    Row {
        name: "pantherlake_cougarcove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xcc, 0xcc), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xd5, 0xd5), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xe5, 0xe5), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (13759, 14109),
    },
    Row {
        name: "pantherlake_darkmont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xcc, 0xcc), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xd5, 0xd5), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xe5, 0xe5), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (14109, 14370),
    },
    Row {
        name: "rocketlake",
        aliases: &["rkl"],
        models: &[Model { family: 6, models: (0xa7, 0xa7), steppings: (0, 15), pmu: "" }],
        list: (14370, 14716),
    },
    Row {
        name: "sandybridge",
        aliases: &["snb"],
        models: &[Model { family: 6, models: (0x2a, 0x2a), steppings: (0, 15), pmu: "" }],
        list: (14716, 15132),
    },
    Row {
        name: "sapphirerapids",
        aliases: &["spr"],
        models: &[Model { family: 6, models: (0x8f, 0x8f), steppings: (0, 15), pmu: "" }],
        list: (15132, 15546),
    },
    Row {
        name: "sierraforest",
        aliases: &["srf"],
        models: &[Model { family: 6, models: (0xaf, 0xaf), steppings: (0, 15), pmu: "" }],
        list: (15546, 15788),
    },
    Row {
        name: "silvermont",
        aliases: &["slm"],
        models: &[
            Model { family: 6, models: (0x37, 0x37), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x4a, 0x4a), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x4d, 0x4d), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x4c, 0x4c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x5a, 0x5a), steppings: (0, 15), pmu: "" },
        ],
        list: (15788, 15931),
    },
    Row {
        name: "skylake",
        aliases: &["skl"],
        models: &[
            Model { family: 6, models: (0x4e, 0x4e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x5e, 0x5e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x8e, 0x8e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x9e, 0x9e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0xa5, 0xa5), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0xa6, 0xa6), steppings: (0, 15), pmu: "" },
        ],
        list: (15931, 16498),
    },
    Row {
        name: "skylakex",
        aliases: &["skx"],
        models: &[Model { family: 6, models: (0x55, 0x55), steppings: (0, 4), pmu: "" }],
        list: (16498, 16972),
    },
    Row {
        name: "snowridgex",
        aliases: &["tmt", "snr"],
        models: &[Model { family: 6, models: (0x86, 0x86), steppings: (0, 15), pmu: "" }],
        list: (16972, 17282),
    },
    Row {
        name: "tigerlake",
        aliases: &["tgl"],
        models: &[
            Model { family: 6, models: (0x8c, 0x8c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x8d, 0x8d), steppings: (0, 15), pmu: "" },
        ],
        list: (17282, 17551),
    },
    Row {
        name: "westmereep_dp",
        aliases: &["wsm_dp", "wsm_ep_dp"],
        models: &[Model { family: 6, models: (0x2c, 0x2c), steppings: (0, 15), pmu: "" }],
        list: (17551, 18101),
    },
    Row {
        name: "westmereep_sp",
        aliases: &["wsm", "wsm_ep_sp"],
        models: &[Model { family: 6, models: (0x25, 0x25), steppings: (0, 15), pmu: "" }],
        list: (18101, 18685),
    },
    Row {
        name: "westmereex",
        aliases: &["wsm_ex"],
        models: &[Model { family: 6, models: (0x2f, 0x2f), steppings: (0, 15), pmu: "" }],
        list: (18685, 19541),
    },
];
