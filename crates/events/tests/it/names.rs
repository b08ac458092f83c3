//! Every name of every table is found in each spelling, and wrong names have useful errors.

use rdpmc::{Event, IntoEvent};
use rdpmc_events::{EventError, Name, Table, event, search};

fn table(name: &str) -> Table {
    Table::named(name).unwrap()
}

#[test]
fn every_name_in_each_spelling() {
    let (mut names, mut tables) = (0, 0);
    for table in Table::all() {
        let all = table.events();
        let mut before = "";
        for known in &all {
            assert!(before < known.name.as_str(), "{table}: {before}, {}", known.name);
            before = &known.name;
            let upper = known.name.to_ascii_uppercase();
            assert_eq!(table.event(&known.name), Ok(known.event), "{table}: {}", known.name);
            assert_eq!(table.event(&upper), Ok(known.event), "{table}: {upper}");
            let of_libpfm4 = upper.replace('.', ":");
            assert_eq!(table.event(&of_libpfm4), Ok(known.event), "{table}: {of_libpfm4}");
            let with_slashes = format!("cpu/{}/", known.name);
            assert_eq!(table.event(&with_slashes), Ok(known.event), "{table}: {with_slashes}");
        }
        names += all.len();
        tables += 1;
    }
    println!("{names} names in {tables} tables");
    // Those of the README.
    assert_eq!((names, tables), (38_812, 118));
}

/// An encoding parses to the same event, also by this crate.
#[test]
fn encodings_parse() {
    for table in Table::all() {
        for known in table.events().iter().step_by(10) {
            let encoding = known.event.encoding();
            assert_eq!(event(&encoding), Ok(known.event), "{encoding}");
        }
    }
}

/// Whatever prints an event that was found by name prints this name: here, the event and its errors.
#[test]
fn a_name_is_kept() {
    for name in [
        "zen4::ls_stlf",
        "skl::FRONTEND_RETIRED.L1I_MISS",
        "skl::int_misc.recovery_cycles,cmask=1:u",
    ] {
        let event = event(name).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(event.to_string(), name);
        assert!(!event.encoding().contains("::"), "{}", event.encoding());
        if let Err(why) = rdpmc::Counter::open(event) {
            assert!(why.to_string().starts_with(name), "{why}");
        }
    }
    let unnamed = Event::raw(0x01c6).with_config1(0x13_0000);
    assert_eq!(unnamed.to_string(), "cpu/config=0x1c6,config1=0x130000/");
}

#[test]
fn rdpmcs_own_names_are_unchanged() {
    for name in [
        "cycles",
        "instructions:u",
        "page-faults",
        "r01c2",
        "L1-dcache-load-misses:k",
        "task-clock",
        "r20d1:uk",
    ] {
        assert_eq!(event(name), Ok(name.parse::<Event>().unwrap()), "{name}");
    }
}

#[test]
fn modifiers_and_terms() {
    let raw = |name: &str| Ok(name.parse::<Event>().unwrap());
    let skylake = table("skylake");
    for (name, expected) in [
        ("inst_retired.any", "rc0"),
        ("inst_retired.any:u", "rc0:u"),
        ("INST_RETIRED.ANY_P:uk", "rc0:uk"),
        ("INST_RETIRED:ANY_P:u:k", "rc0:uk"),
        ("INST_RETIRED:ANY_P:u:c=1:i", "r18000c0:u"),
        ("UOPS_ISSUED:ANY:e=1", "r4010e"),
        ("cpu/mem_load_retired.l3_miss,cmask=1/u", "r10020d1:u"),
        ("mem_load_retired.l3_miss,cmask=0x1:u", "r10020d1:u"),
        ("mem_load_retired.l3_miss,umask=0x1,inv", "r8001d1"),
        ("cpu/cmask=2,mem_load_retired.l3_miss,period=5,edge/", "r20420d1"),
        ("uops_issued.stall_cycles", "r180010e"),
    ] {
        assert_eq!(skylake.event(name), raw(expected), "{name}");
        assert_eq!(event(&format!("skylake::{name}")), raw(expected), "{name}");
        assert_eq!(event(&format!("skl::{name}")), raw(expected), "{name}");
    }
    let latency = skylake.event("mem_trans_retired.load_latency_gt_128").unwrap();
    assert_eq!(latency, Event::raw(0x1cd).with_config1(0x80));
    let lower = skylake.event("cpu/mem_trans_retired.load_latency_gt_128,ldlat=3/").unwrap();
    assert_eq!(lower, Event::raw(0x1cd).with_config1(3));
    for (name, expected) in [
        ("inst_retired.any,CMASK=1", "r10000c0"),
        ("cmask=1,INST_RETIRED:ANY_P:u", "r10000c0:u"),
        ("INV,inst_retired.any", "r8000c0"),
        ("inst_retired.any,cmask=1:u:k", "r10000c0:uk"),
        ("inst_retired.any,period=100,freq=1,name=x", "rc0"),
    ] {
        assert_eq!(skylake.event(name), raw(expected), "{name}");
    }
    for (name, term) in [
        ("inst_retired.any,cmask=256", "cmask=256"),
        ("inst_retired.any,cmask", "cmask"),
        ("inst_retired.any,nothing=1", "nothing=1"),
        ("inst_retired.any,umask=", "umask="),
        ("inst_retired.any,inv=2", "inv=2"),
        ("inst_retired.any,cmask=+1", "cmask=+1"),
        ("inst_retired.any,cmask=1,CMASK=1", "CMASK=1"),
        ("inst_retired.any,config=1", "config=1"),
        ("inst_retired.any,config1", "config1"),
        ("inst_retired.any,period=x", "period=x"),
        ("INST_RETIRED:ANY_P:z=1", "z=1"),
        ("FRONTEND_RETIRED:LATENCY_GE_128:fe_thres=16", "fe_thres=16"),
        ("INST_RETIRED:ANY_P:PREC_DIST", "PREC_DIST"),
        ("inst_retired.any:xyz", "xyz"),
    ] {
        match skylake.event(name) {
            Err(EventError::WrongTerm { term: found, .. }) => assert_eq!(found, term),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(table("zen4").event("ex_ret_instr:u"), raw("rc0:u"));
    assert_eq!(table("zen4").event("RETIRED_INSTRUCTIONS:c=2"), raw("r20000c0"));
    assert_eq!(table("neoverse-n1").event("INST_RETIRED"), raw("r8"));
}

#[test]
fn wrong_names() {
    let text = |result: Result<Event, EventError>| result.unwrap_err().to_string();
    for (name, message) in [
        (
            "skylake::mem_load_retired.l3_mis",
            "skylake has no event mem_load_retired.l3_mis. The nearest names: mem_load_retired.l3_miss, mem_load_retired.l1_miss, mem_load_retired.l2_miss",
        ),
        (
            "zen4::mem_load_retired.fb_hit",
            "zen4 has no event mem_load_retired.fb_hit. Other CPUs have it: novalake_coyotecove, emeraldrapids and 14 more",
        ),
        (
            "zen4::INST_RETIRED:ANY",
            "zen4 has no event INST_RETIRED:ANY. Other CPUs have it: novalake_arcticwolf, novalake_coyotecove and 45 more",
        ),
        (
            "skilake::inst_retired.any",
            "there is no table skilake. The nearest: skylake, skylakex. `Table::all` returns the tables",
        ),
        // Another CPU of the same vendor comes first, and the newest of its family.
        (
            "zen4::ex_ret_cops",
            "zen4 has no event ex_ret_cops. The nearest names: ex_ret_ops, ex_ret_ucode_ops. Other CPUs have it: zen2 and zen1",
        ),
        (
            "zen5::ls_mab_alloc.no_such",
            "zen5 has no event ls_mab_alloc.no_such. The nearest names: ls_mab_alloc.ls, ls_mab_alloc, ls_mab_alloc.all",
        ),
        (
            "skl::BR_INST_RETIRED:CONDITIONAL:NEAR_CALL",
            "NEAR_CALL is a second unit mask. Give one unit mask, or the bits of all in one, as umask=NUMBER",
        ),
        (
            "zen4::ex_ret_ops:q",
            "q is neither a term of this PMU nor a modifier. The terms are event, umask, edge, inv, cmask, and the modifiers u, k, h, G, H, I, D, e, S, W, p, P",
        ),
        ("zen4::ex_ret_ops,cmask=1,cmask=2", "the term cmask=2 is there twice. Give it once"),
        ("zen4::ex_ret_ops,cmask", "the term cmask has no value. Write cmask=NUMBER"),
        (
            "zen4::ex_ret_ops,cmask=x",
            "the value of cmask=x is not a number. Write it in decimal, or in hexadecimal after 0x",
        ),
        (
            "zen4::ex_ret_ops,umask=0x1000",
            "the value of umask=0x1000 is too large: this term has 8 bits. Give a smaller one",
        ),
        (
            "zen4::retired_instructions:",
            "nothing follows the last colon of `zen4::retired_instructions:`. Remove it",
        ),
        (
            "zen4::l3_lookup_state.l3_miss",
            "l3_lookup_state.l3_miss is an event of the PMU amd_l3, which counts for a part of the machine and not for a thread. `perf stat -a -e NAME` counts it, with privileges",
        ),
        (
            "zen4::RETIRED_INSTRUCTIONS:PMC0",
            "RETIRED_INSTRUCTIONS:PMC0 is a name of LIKWID's. Write RETIRED_INSTRUCTIONS: the kernel chooses the counter",
        ),
        (
            "ex_ret_instr,ex_ret_brn",
            "`ex_ret_instr,ex_ret_brn` is a list of events. Parse one event at a time, and open a group for several",
        ),
        (
            "skl::l2_rqsts.miss,",
            "l2_rqsts.miss, has a comma or colon with nothing behind it. Remove it",
        ),
        ("skl::l2_rqsts.miss,u", "the modifier u stands behind a comma. Write :u at the end"),
        ("skl::l2_rqsts.miss,cmask=", "the term cmask= has no value. Write cmask=NUMBER"),
        (
            "zen4:ex_ret_ops",
            "zen4:ex_ret_ops has one colon after the name of a table. Write zen4::ex_ret_ops",
        ),
        ("zen4::cycles", "cycles belongs to no table. Write cycles without the table"),
        (
            "gracemont::inst_retired.any",
            "there is no table gracemont. The nearest: alderlake_gracemont. `Table::all` returns the tables",
        ),
        (
            "skl::inst_retired.any,foo=3",
            "foo=3 is neither a term of this PMU nor a modifier. The terms are event, umask, edge, pc, any, inv, cmask, in_tx, in_tx_cp, eq, \
             offcore_rsp, ldlat, frontend, and the modifiers u, k, h, G, H, I, D, e, S, W, p, P",
        ),
        (
            "skl::inst_retired.any,inst_retired.any_p",
            "inst_retired.any_p is another event. Give one event at a time, and open a group for several",
        ),
        (
            "zen4::ex_ret_ops,inv=2",
            "the value of inv=2 is too large: this term has one bit. Give a smaller one",
        ),
        (
            "zen4::ex_ret_ops::u",
            "ex_ret_ops::u has a comma or colon with nothing behind it. Remove it",
        ),
        (
            "zen4::cpu/name=\0x,ex_ret_ops/",
            "`zen4::cpu/name=\\u{0}x,ex_ret_ops/` has a control character. Remove it",
        ),
        (
            "skylake::cpu_atom/inst_retired.any/",
            "the core PMU cpu_atom does not count the events of the table skylake. Write cpu/NAME/, the name alone, or the table of that core type",
        ),
        (
            "skylake::nosuch/inst_retired.any/",
            "the core PMU nosuch does not count the events of the table skylake. Write cpu/NAME/, the name alone, or the table of that core type",
        ),
    ] {
        assert_eq!(text(event(name)), message);
    }
    // What is not one name has rdpmc's error.
    for name in [
        "cpu/inst_retired.any",
        "cpu//x",
        "",
        "skylake::",
        "::",
        "nosuch/ex_ret_instr/",
        "uncore_imc/ex_ret_instr/",
    ] {
        assert!(matches!(event(name), Err(EventError::Name(_))), "{name}: {:?}", event(name));
    }
    let skylake = table("skylake");
    let of_another = skylake.event("zen4::inst_retired.any").unwrap_err();
    assert_eq!(of_another.cause(), "the table is skylake, and the name is one of zen4");
    let of_none = skylake.event("nosuch::inst_retired.any");
    assert!(matches!(of_none, Err(EventError::UnknownTable { .. })), "{of_none:?}");
    assert_eq!(skylake.event("skl::inst_retired.any"), skylake.event("inst_retired.any"));
    let of_atom = "alderlake_gracemont::cpu_atom/inst_retired.any/";
    assert_eq!(event(of_atom), skylake.event("inst_retired.any"));
    for long in [":".repeat(100_000), "a:".repeat(50_000), ",cmask=1".repeat(50_000)] {
        assert!(matches!(event(&long), Err(EventError::Name(_))));
        assert!(matches!(skylake.event(&long), Err(EventError::Name(_))));
    }
    // A misspelt name of the kernel's has rdpmc's suggestion.
    assert!(text(event("cylces")).contains("cycles"), "{}", text(event("cylces")));
    // A CPU that has a table is named.
    let unknown = event("no_such_thing.at_all").unwrap_err();
    match Table::local() {
        Ok(_) => assert!(matches!(unknown, EventError::UnknownEvent { .. }), "{unknown:?}"),
        Err(_) => assert!(matches!(unknown, EventError::Name(_)), "{unknown:?}"),
    }
    // The parts of a message.
    let why = event("skylake::mem_load_retired.l3_mis").unwrap_err();
    assert_eq!(why.to_string(), format!("{}. {}", why.cause(), why.remedy().unwrap()));
}

/// Functions of other crates take such names, and `?` works in functions that return `rdpmc::Error`.
#[test]
fn names_for_other_crates() {
    assert_eq!((&Name("skylake::inst_retired.any")).into_event(), Ok(Event::raw(0xc0)));
    assert_eq!(Name("cycles").into_event(), Ok(Event::CYCLES));
    assert_eq!(Name("cycles").to_string(), "cycles");
    let wrong = "zen4::mem_load_retired.fb_hit";
    let said = event(wrong).unwrap_err().to_string();
    assert_eq!(Name(wrong).into_event().unwrap_err().to_string(), said);
    let parsed = || -> Result<Event, rdpmc::Error> { Ok(event(wrong)?) };
    assert_eq!(parsed().unwrap_err().to_string(), said);
    assert_eq!(Name("cylces").into_event(), "cylces".parse::<Event>());
}

#[test]
fn searching() {
    let found = table("skylake").search("L3 MISS load");
    let names: Vec<&str> = found.iter().map(|known| known.name.as_str()).collect();
    assert!(names.contains(&"mem_load_retired.l3_miss"), "{names:?}");
    assert!(found.iter().all(|known| known.table.name() == "skylake"));
    let miss = found.iter().find(|known| known.name == "mem_load_retired.l3_miss").unwrap();
    let text = "Retired load instructions missed L3 cache as data sources";
    assert_eq!(miss.description.as_deref(), Some(text));
    assert!(table("skylake").search("").len() > 400);
    assert!(table("skylake").search("no such words").is_empty());
    // This machine's CPU, whatever it is.
    match Table::local() {
        Ok(tables) => {
            let all: Vec<_> = tables.iter().flat_map(|table| table.search("miss")).collect();
            let names = |all: &[rdpmc_events::VendorEvent]| -> Vec<String> {
                all.iter().map(|known| known.name.clone()).collect()
            };
            assert_eq!(names(&search("miss").unwrap()), names(&all));
            println!("{} events in {tables:?}", all.len());
        }
        Err(why) => assert_eq!(search("miss").unwrap_err(), why),
    }
}

/// Arbitrary names: no panic, and an event that is printed parses to the same event. `tests/fuzz` tries many more.
#[test]
fn arbitrary_names() {
    let parts = [
        "skylake::",
        "zen4::",
        "::",
        ":",
        "/",
        "cpu/",
        ",",
        "=",
        "cmask=",
        "1",
        "0x",
        "inst_retired.any",
        "INST_RETIRED",
        "ANY",
        "ex_ret_instr",
        ".",
        "u",
        "e",
        "i",
        "t",
        "c=1",
        " ",
        "umask=0xffffffffffffffffff",
        "\u{e9}",
        "config1=7",
        "config",
        "",
        "inv",
    ];
    let mut seed = 1_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    // More where the whole walks are made.
    let rounds = if std::env::var_os("RDPMC_WHOLE").is_some() { 20_000 } else { 4_000 };
    let (skylake, mut events) = (table("skylake"), 0);
    for round in 0..rounds {
        let mut name = String::new();
        for _ in 0..next(8) {
            name += parts[next(parts.len())];
        }
        if round % 500 == 0 {
            name += &"x".repeat(next(2_000));
        }
        if round % 50 == 0 {
            let _ = event(&name);
        }
        if let Ok(found) = skylake.event(&name) {
            assert_eq!(found.encoding().parse(), Ok(found), "{name}");
            events += 1;
        }
    }
    assert!(events > 20, "{events}");
}
