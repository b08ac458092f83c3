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
        list: (0, 386),
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
        list: (386, 653),
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
        list: (653, 863),
    },
    Row {
        name: "arrowlake_lioncove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xc5, 0xc5), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xc6, 0xc6), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (863, 1197),
    },
    Row {
        name: "arrowlake_skymont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xc5, 0xc5), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xc6, 0xc6), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (1197, 1503),
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
        list: (1503, 1965),
    },
    Row {
        name: "broadwell",
        aliases: &["bdw"],
        models: &[
            Model { family: 6, models: (0x3d, 0x3d), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x47, 0x47), steppings: (0, 15), pmu: "" },
        ],
        list: (1965, 2913),
    },
    Row {
        name: "broadwellde",
        aliases: &["bdw_de"],
        models: &[Model { family: 6, models: (0x56, 0x56), steppings: (0, 15), pmu: "" }],
        list: (2913, 3262),
    },
    Row {
        name: "broadwellx",
        aliases: &["bdw_ep", "bdx"],
        models: &[Model { family: 6, models: (0x4f, 0x4f), steppings: (0, 15), pmu: "" }],
        list: (3262, 3860),
    },
    Row {
        name: "cascadelakex",
        aliases: &["clx"],
        models: &[Model { family: 6, models: (0x55, 0x55), steppings: (5, 15), pmu: "" }],
        list: (3860, 6466),
    },
    Row {
        name: "clearwaterforest",
        aliases: &["cwf"],
        models: &[Model { family: 6, models: (0xdd, 0xdd), steppings: (0, 15), pmu: "" }],
        list: (6466, 6737),
    },
    Row {
        name: "elkhartlake",
        aliases: &["ehl"],
        models: &[
            Model { family: 6, models: (0x96, 0x96), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x9c, 0x9c), steppings: (0, 15), pmu: "" },
        ],
        list: (6737, 7050),
    },
    Row {
        name: "emeraldrapids",
        aliases: &["emr"],
        models: &[Model { family: 6, models: (0xcf, 0xcf), steppings: (0, 15), pmu: "" }],
        list: (7050, 7715),
    },
    Row {
        name: "goldmont",
        aliases: &["glm"],
        models: &[
            Model { family: 6, models: (0x5c, 0x5c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x5f, 0x5f), steppings: (0, 15), pmu: "" },
        ],
        list: (7715, 7978),
    },
    Row {
        name: "goldmontplus",
        aliases: &["glp"],
        models: &[Model { family: 6, models: (0x7a, 0x7a), steppings: (0, 15), pmu: "" }],
        list: (7978, 8172),
    },
    Row {
        name: "grandridge",
        aliases: &["grr"],
        models: &[Model { family: 6, models: (0xb6, 0xb6), steppings: (0, 15), pmu: "" }],
        list: (8172, 8416),
    },
    Row {
        name: "graniterapids",
        aliases: &["gnr"],
        models: &[
            Model { family: 6, models: (0xad, 0xad), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0xae, 0xae), steppings: (0, 15), pmu: "" },
        ],
        list: (8416, 8998),
    },
    Row {
        name: "haswell",
        aliases: &["hsw"],
        models: &[
            Model { family: 6, models: (0x3c, 0x3c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x45, 0x45), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x46, 0x46), steppings: (0, 15), pmu: "" },
        ],
        list: (8998, 9562),
    },
    Row {
        name: "haswellx",
        aliases: &["hsw_ep", "hsx"],
        models: &[Model { family: 6, models: (0x3f, 0x3f), steppings: (0, 15), pmu: "" }],
        list: (9562, 10151),
    },
    Row {
        name: "icelake",
        aliases: &["icl"],
        models: &[
            Model { family: 6, models: (0x7d, 0x7d), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x7e, 0x7e), steppings: (0, 15), pmu: "" },
        ],
        list: (10151, 10777),
    },
    Row {
        name: "icelakex",
        aliases: &["icx"],
        models: &[
            Model { family: 6, models: (0x6a, 0x6a), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x6c, 0x6c), steppings: (0, 15), pmu: "" },
        ],
        list: (10777, 11490),
    },
    Row {
        name: "ivybridge",
        aliases: &["ivb"],
        models: &[Model { family: 6, models: (0x3a, 0x3a), steppings: (0, 15), pmu: "" }],
        list: (11490, 12019),
    },
    Row {
        name: "ivytown",
        aliases: &["ivb_ep", "ivt"],
        models: &[Model { family: 6, models: (0x3e, 0x3e), steppings: (0, 15), pmu: "" }],
        list: (12019, 12592),
    },
    Row {
        name: "jaketown",
        aliases: &["snb_ep", "jkt"],
        models: &[Model { family: 6, models: (0x2d, 0x2d), steppings: (0, 15), pmu: "" }],
        list: (12592, 13178),
    },
    Row {
        name: "knightslanding",
        aliases: &["knl"],
        models: &[
            Model { family: 6, models: (0x57, 0x57), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x85, 0x85), steppings: (0, 15), pmu: "" },
        ],
        list: (13178, 13684),
    },
    Row {
        name: "lunarlake_lioncove",
        aliases: &[],
        models: &[Model { family: 6, models: (0xbd, 0xbd), steppings: (0, 15), pmu: "cpu_core" }],
        list: (13684, 14020),
    },
    Row {
        name: "lunarlake_skymont",
        aliases: &[],
        models: &[Model { family: 6, models: (0xbd, 0xbd), steppings: (0, 15), pmu: "cpu_atom" }],
        list: (14020, 14339),
    },
    Row {
        name: "meteorlake_crestmont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xaa, 0xaa), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xac, 0xac), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xb5, 0xb5), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (14339, 14603),
    },
    Row {
        name: "meteorlake_redwoodcove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xaa, 0xaa), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xac, 0xac), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xb5, 0xb5), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (14603, 14931),
    },
    Row {
        name: "nehalemep",
        aliases: &["nhm", "nhm_ep"],
        models: &[
            Model { family: 6, models: (0x1e, 0x1e), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x1f, 0x1f), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x1a, 0x1a), steppings: (0, 15), pmu: "" },
        ],
        list: (14931, 15911),
    },
    Row {
        name: "nehalemex",
        aliases: &["nhm_ex"],
        models: &[Model { family: 6, models: (0x2e, 0x2e), steppings: (0, 15), pmu: "" }],
        list: (15911, 16892),
    },
    Row {
        name: "novalake_arcticwolf",
        aliases: &[],
        models: &[
            Model { family: 18, models: (0x1, 0x1), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 18, models: (0x3, 0x3), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (16892, 17023),
    },
    Row {
        name: "novalake_coyotecove",
        aliases: &[],
        models: &[
            Model { family: 18, models: (0x1, 0x1), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 18, models: (0x3, 0x3), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (17023, 17352),
    },
    Row {
        name: "pantherlake_cougarcove",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xcc, 0xcc), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xd5, 0xd5), steppings: (0, 15), pmu: "cpu_core" },
            Model { family: 6, models: (0xe5, 0xe5), steppings: (0, 15), pmu: "cpu_core" },
        ],
        list: (17352, 17704),
    },
    Row {
        name: "pantherlake_darkmont",
        aliases: &[],
        models: &[
            Model { family: 6, models: (0xcc, 0xcc), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xd5, 0xd5), steppings: (0, 15), pmu: "cpu_atom" },
            Model { family: 6, models: (0xe5, 0xe5), steppings: (0, 15), pmu: "cpu_atom" },
        ],
        list: (17704, 17970),
    },
    Row {
        name: "rocketlake",
        aliases: &["rkl"],
        models: &[Model { family: 6, models: (0xa7, 0xa7), steppings: (0, 15), pmu: "" }],
        list: (17970, 18317),
    },
    Row {
        name: "sandybridge",
        aliases: &["snb"],
        models: &[Model { family: 6, models: (0x2a, 0x2a), steppings: (0, 15), pmu: "" }],
        list: (18317, 18948),
    },
    Row {
        name: "sapphirerapids",
        aliases: &["spr"],
        models: &[Model { family: 6, models: (0x8f, 0x8f), steppings: (0, 15), pmu: "" }],
        list: (18948, 19618),
    },
    Row {
        name: "sierraforest",
        aliases: &["srf"],
        models: &[Model { family: 6, models: (0xaf, 0xaf), steppings: (0, 15), pmu: "" }],
        list: (19618, 19865),
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
        list: (19865, 20126),
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
        list: (20126, 20938),
    },
    Row {
        name: "skylakex",
        aliases: &["skx"],
        models: &[Model { family: 6, models: (0x55, 0x55), steppings: (0, 4), pmu: "" }],
        list: (20938, 21666),
    },
    Row {
        name: "snowridgex",
        aliases: &["tmt", "snr"],
        models: &[Model { family: 6, models: (0x86, 0x86), steppings: (0, 15), pmu: "" }],
        list: (21666, 22002),
    },
    Row {
        name: "tigerlake",
        aliases: &["tgl"],
        models: &[
            Model { family: 6, models: (0x8c, 0x8c), steppings: (0, 15), pmu: "" },
            Model { family: 6, models: (0x8d, 0x8d), steppings: (0, 15), pmu: "" },
        ],
        list: (22002, 22272),
    },
    Row {
        name: "westmereep_dp",
        aliases: &["wsm_dp", "wsm_ep_dp"],
        models: &[Model { family: 6, models: (0x2c, 0x2c), steppings: (0, 15), pmu: "" }],
        list: (22272, 22965),
    },
    Row {
        name: "westmereep_sp",
        aliases: &["wsm", "wsm_ep_sp"],
        models: &[Model { family: 6, models: (0x25, 0x25), steppings: (0, 15), pmu: "" }],
        list: (22965, 23694),
    },
    Row {
        name: "westmereex",
        aliases: &["wsm_ex"],
        models: &[Model { family: 6, models: (0x2f, 0x2f), steppings: (0, 15), pmu: "" }],
        list: (23694, 24554),
    },
];
