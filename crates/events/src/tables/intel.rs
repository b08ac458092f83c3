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
        aliases: &["rpl", "adl_glc", "adl"],
        models: &[
            Model::of_x86(6, (0x97, 0x97), (0, 15), "cpu_core"),
            Model::of_x86(6, (0x9a, 0x9a), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xb7, 0xb7), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xba, 0xba), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xbf, 0xbf), (0, 15), "cpu_core"),
        ],
        list: (0, 386),
    },
    Row {
        name: "alderlake_gracemont",
        aliases: &["adl_grt"],
        models: &[
            Model::of_x86(6, (0x97, 0x97), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0x9a, 0x9a), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xb7, 0xb7), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xba, 0xba), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xbf, 0xbf), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xbe, 0xbe), (0, 15), ""),
        ],
        list: (386, 653),
    },
    Row {
        name: "arrowlake_crestmont",
        aliases: &["arl_cmt"],
        models: &[Model::of_x86(6, (0xc5, 0xc5), (0, 15), "cpu_lowpower")],
        list: (653, 863),
    },
    Row {
        name: "arrowlake_lioncove",
        aliases: &["arl_lnc", "arl"],
        models: &[
            Model::of_x86(6, (0xc5, 0xc5), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xc6, 0xc6), (0, 15), "cpu_core"),
        ],
        list: (863, 1197),
    },
    Row {
        name: "arrowlake_skymont",
        aliases: &["arl_skt"],
        models: &[
            Model::of_x86(6, (0xc5, 0xc5), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xc6, 0xc6), (0, 15), "cpu_atom"),
        ],
        list: (1197, 1503),
    },
    Row {
        name: "bonnell",
        aliases: &["atom", "bnl"],
        models: &[
            Model::of_x86(6, (0x1c, 0x1c), (0, 15), ""),
            Model::of_x86(6, (0x26, 0x26), (0, 15), ""),
            Model::of_x86(6, (0x27, 0x27), (0, 15), ""),
            Model::of_x86(6, (0x36, 0x36), (0, 15), ""),
            Model::of_x86(6, (0x35, 0x35), (0, 15), ""),
        ],
        list: (1503, 1965),
    },
    Row {
        name: "broadwell",
        aliases: &["bdw"],
        models: &[
            Model::of_x86(6, (0x3d, 0x3d), (0, 15), ""),
            Model::of_x86(6, (0x47, 0x47), (0, 15), ""),
        ],
        list: (1965, 2913),
    },
    Row {
        name: "broadwellde",
        aliases: &["bdw_de"],
        models: &[Model::of_x86(6, (0x56, 0x56), (0, 15), "")],
        list: (2913, 3262),
    },
    Row {
        name: "broadwellx",
        aliases: &["bdw_ep", "bdx"],
        models: &[Model::of_x86(6, (0x4f, 0x4f), (0, 15), "")],
        list: (3262, 3860),
    },
    Row {
        name: "cascadelakex",
        aliases: &["clx"],
        models: &[Model::of_x86(6, (0x55, 0x55), (5, 15), "")],
        list: (3860, 6466),
    },
    Row {
        name: "clearwaterforest",
        aliases: &["cwf"],
        models: &[Model::of_x86(6, (0xdd, 0xdd), (0, 15), "")],
        list: (6466, 6737),
    },
    Row {
        name: "elkhartlake",
        aliases: &["ehl"],
        models: &[
            Model::of_x86(6, (0x96, 0x96), (0, 15), ""),
            Model::of_x86(6, (0x9c, 0x9c), (0, 15), ""),
        ],
        list: (6737, 7050),
    },
    Row {
        name: "emeraldrapids",
        aliases: &["emr"],
        models: &[Model::of_x86(6, (0xcf, 0xcf), (0, 15), "")],
        list: (7050, 7715),
    },
    Row {
        name: "goldmont",
        aliases: &["glm"],
        models: &[
            Model::of_x86(6, (0x5c, 0x5c), (0, 15), ""),
            Model::of_x86(6, (0x5f, 0x5f), (0, 15), ""),
        ],
        list: (7715, 7978),
    },
    Row {
        name: "goldmontplus",
        aliases: &["glp"],
        models: &[Model::of_x86(6, (0x7a, 0x7a), (0, 15), "")],
        list: (7978, 8172),
    },
    Row {
        name: "grandridge",
        aliases: &["grr"],
        models: &[Model::of_x86(6, (0xb6, 0xb6), (0, 15), "")],
        list: (8172, 8416),
    },
    Row {
        name: "graniterapids",
        aliases: &["gnr"],
        models: &[
            Model::of_x86(6, (0xad, 0xad), (0, 15), ""),
            Model::of_x86(6, (0xae, 0xae), (0, 15), ""),
        ],
        list: (8416, 8998),
    },
    Row {
        name: "haswell",
        aliases: &["hsw"],
        models: &[
            Model::of_x86(6, (0x3c, 0x3c), (0, 15), ""),
            Model::of_x86(6, (0x45, 0x45), (0, 15), ""),
            Model::of_x86(6, (0x46, 0x46), (0, 15), ""),
        ],
        list: (8998, 9562),
    },
    Row {
        name: "haswellx",
        aliases: &["hsw_ep", "hsx"],
        models: &[Model::of_x86(6, (0x3f, 0x3f), (0, 15), "")],
        list: (9562, 10151),
    },
    Row {
        name: "icelake",
        aliases: &["icl"],
        models: &[
            Model::of_x86(6, (0x7d, 0x7d), (0, 15), ""),
            Model::of_x86(6, (0x7e, 0x7e), (0, 15), ""),
        ],
        list: (10151, 10776),
    },
    Row {
        name: "icelakex",
        aliases: &["icx"],
        models: &[
            Model::of_x86(6, (0x6a, 0x6a), (0, 15), ""),
            Model::of_x86(6, (0x6c, 0x6c), (0, 15), ""),
        ],
        list: (10776, 11488),
    },
    Row {
        name: "ivybridge",
        aliases: &["ivb"],
        models: &[Model::of_x86(6, (0x3a, 0x3a), (0, 15), "")],
        list: (11488, 12017),
    },
    Row {
        name: "ivytown",
        aliases: &["ivb_ep", "ivt"],
        models: &[Model::of_x86(6, (0x3e, 0x3e), (0, 15), "")],
        list: (12017, 12590),
    },
    Row {
        name: "jaketown",
        aliases: &["snb_ep", "jkt"],
        models: &[Model::of_x86(6, (0x2d, 0x2d), (0, 15), "")],
        list: (12590, 13176),
    },
    Row {
        name: "knightslanding",
        aliases: &["knl"],
        models: &[
            Model::of_x86(6, (0x57, 0x57), (0, 15), ""),
            Model::of_x86(6, (0x85, 0x85), (0, 15), ""),
        ],
        list: (13176, 13682),
    },
    Row {
        name: "lunarlake_lioncove",
        aliases: &["lnl_lnc", "lnl"],
        models: &[Model::of_x86(6, (0xbd, 0xbd), (0, 15), "cpu_core")],
        list: (13682, 14018),
    },
    Row {
        name: "lunarlake_skymont",
        aliases: &["lnl_skt"],
        models: &[Model::of_x86(6, (0xbd, 0xbd), (0, 15), "cpu_atom")],
        list: (14018, 14337),
    },
    Row {
        name: "meteorlake_crestmont",
        aliases: &["mtl_cmt"],
        models: &[
            Model::of_x86(6, (0xaa, 0xaa), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xac, 0xac), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xb5, 0xb5), (0, 15), "cpu_atom"),
        ],
        list: (14337, 14601),
    },
    Row {
        name: "meteorlake_redwoodcove",
        aliases: &["mtl_rwc", "mtl"],
        models: &[
            Model::of_x86(6, (0xaa, 0xaa), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xac, 0xac), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xb5, 0xb5), (0, 15), "cpu_core"),
        ],
        list: (14601, 14929),
    },
    Row {
        name: "nehalemep",
        aliases: &["nhm", "nhm_ep"],
        models: &[
            Model::of_x86(6, (0x1e, 0x1e), (0, 15), ""),
            Model::of_x86(6, (0x1f, 0x1f), (0, 15), ""),
            Model::of_x86(6, (0x1a, 0x1a), (0, 15), ""),
        ],
        list: (14929, 15909),
    },
    Row {
        name: "nehalemex",
        aliases: &["nhm_ex"],
        models: &[Model::of_x86(6, (0x2e, 0x2e), (0, 15), "")],
        list: (15909, 16890),
    },
    Row {
        name: "novalake_arcticwolf",
        aliases: &["nvl_arw"],
        models: &[
            Model::of_x86(18, (0x1, 0x1), (0, 15), "cpu_atom"),
            Model::of_x86(18, (0x3, 0x3), (0, 15), "cpu_atom"),
        ],
        list: (16890, 17021),
    },
    Row {
        name: "novalake_coyotecove",
        aliases: &["nvl_cyc", "nvl"],
        models: &[
            Model::of_x86(18, (0x1, 0x1), (0, 15), "cpu_core"),
            Model::of_x86(18, (0x3, 0x3), (0, 15), "cpu_core"),
        ],
        list: (17021, 17354),
    },
    Row {
        name: "pantherlake_cougarcove",
        aliases: &["ptl_cgc", "ptl"],
        models: &[
            Model::of_x86(6, (0xcc, 0xcc), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xd5, 0xd5), (0, 15), "cpu_core"),
            Model::of_x86(6, (0xe5, 0xe5), (0, 15), "cpu_core"),
        ],
        list: (17354, 17706),
    },
    Row {
        name: "pantherlake_darkmont",
        aliases: &["ptl_dkt"],
        models: &[
            Model::of_x86(6, (0xcc, 0xcc), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xd5, 0xd5), (0, 15), "cpu_atom"),
            Model::of_x86(6, (0xe5, 0xe5), (0, 15), "cpu_atom"),
        ],
        list: (17706, 17972),
    },
    Row {
        name: "rocketlake",
        aliases: &["rkl"],
        models: &[Model::of_x86(6, (0xa7, 0xa7), (0, 15), "")],
        list: (17972, 18319),
    },
    Row {
        name: "sandybridge",
        aliases: &["snb"],
        models: &[Model::of_x86(6, (0x2a, 0x2a), (0, 15), "")],
        list: (18319, 18950),
    },
    Row {
        name: "sapphirerapids",
        aliases: &["spr"],
        models: &[Model::of_x86(6, (0x8f, 0x8f), (0, 15), "")],
        list: (18950, 19620),
    },
    Row {
        name: "sierraforest",
        aliases: &["srf"],
        models: &[Model::of_x86(6, (0xaf, 0xaf), (0, 15), "")],
        list: (19620, 19867),
    },
    Row {
        name: "silvermont",
        aliases: &["slm"],
        models: &[
            Model::of_x86(6, (0x37, 0x37), (0, 15), ""),
            Model::of_x86(6, (0x4a, 0x4a), (0, 15), ""),
            Model::of_x86(6, (0x4d, 0x4d), (0, 15), ""),
            Model::of_x86(6, (0x4c, 0x4c), (0, 15), ""),
            Model::of_x86(6, (0x5a, 0x5a), (0, 15), ""),
        ],
        list: (19867, 20128),
    },
    Row {
        name: "skylake",
        aliases: &["kbl", "cfl", "cml", "whl", "skl"],
        models: &[
            Model::of_x86(6, (0x4e, 0x4e), (0, 15), ""),
            Model::of_x86(6, (0x5e, 0x5e), (0, 15), ""),
            Model::of_x86(6, (0x8e, 0x8e), (0, 15), ""),
            Model::of_x86(6, (0x9e, 0x9e), (0, 15), ""),
            Model::of_x86(6, (0xa5, 0xa5), (0, 15), ""),
            Model::of_x86(6, (0xa6, 0xa6), (0, 15), ""),
        ],
        list: (20128, 20940),
    },
    Row {
        name: "skylakex",
        aliases: &["skx"],
        models: &[Model::of_x86(6, (0x55, 0x55), (0, 4), "")],
        list: (20940, 21668),
    },
    Row {
        name: "snowridgex",
        aliases: &["tmt", "snr"],
        models: &[Model::of_x86(6, (0x86, 0x86), (0, 15), "")],
        list: (21668, 22004),
    },
    Row {
        name: "tigerlake",
        aliases: &["tgl"],
        models: &[
            Model::of_x86(6, (0x8c, 0x8c), (0, 15), ""),
            Model::of_x86(6, (0x8d, 0x8d), (0, 15), ""),
        ],
        list: (22004, 22274),
    },
    Row {
        name: "westmereep_dp",
        aliases: &["wsm_dp", "wsm_ep_dp"],
        models: &[Model::of_x86(6, (0x2c, 0x2c), (0, 15), "")],
        list: (22274, 22967),
    },
    Row {
        name: "westmereep_sp",
        aliases: &["wsm", "wsm_ep_sp"],
        models: &[Model::of_x86(6, (0x25, 0x25), (0, 15), "")],
        list: (22967, 23696),
    },
    Row {
        name: "westmereex",
        aliases: &["wsm_ex"],
        models: &[Model::of_x86(6, (0x2f, 0x2f), (0, 15), "")],
        list: (23696, 24556),
    },
];
