//! The build of what runs inside a machine.

use super::Task;
use super::machines::Machine;
use crate::commands::{in_debian, machines_directory, script, succeed};
use crate::lock::Lock;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The arguments of the builds that a run has made. They are not made again for its other machines.
pub(super) type Built = Vec<Vec<String>>;

/// Builds the emulator if it is our own. Builds the guest program and the examples, and packs them into an initial file
/// system.
pub(super) fn build(
    machine: &Machine,
    task: &Task,
    profile: &str,
    lock: &Lock,
    done: &mut Built,
) -> Result<(), String> {
    let name = &machine.name;
    if let Some(device_tree) = &machine.device_tree {
        let mut script = script(device_tree);
        succeed(script.arg(name).stdin(lock.input()?), "the device tree cannot be made")?;
    }
    if let Some(emulator) = &machine.own_emulator {
        let mut build = script(&format!("{emulator}/build"));
        succeed(build.stdin(lock.input()?), "the emulator does not build")?;
    }
    // Until the programs are copied. Runs of other machines with this architecture build the same ones.
    let builds = machines_directory().join(format!("{}.lock", machine.triple));
    let builds = Lock::take(&builds, || {})?;
    // Costs in other builds are those of the library alone.
    let peers = machine.peers && profile == "release";
    let examples: &[&str] = match task {
        Task::Examples => &["quickstart", "region", "group", "frames", "ticks"],
        Task::Doctor => &["doctor"],
        _ => &[],
    };
    let mut packages = vec!["--package", "guest", "--bin", "guest"];
    // Only costs are measured in other builds. Those of spans have limits at opt-level 2.
    match profile {
        "release" => {}
        "two" => packages.extend(["--no-default-features", "--features", "spans"]),
        _ => packages.push("--no-default-features"),
    }
    packages.extend(examples.iter().flat_map(|example| ["--bin", *example]));
    if peers {
        packages.extend(["--package", "peers", "--bin", "peers"]);
    }
    cargo(machine, profile, &packages, &builds, done, "the guest does not build")?;
    if *task == Task::Criterion {
        let failure = "measurement does not build";
        cargo(machine, profile, &["--package", "measurement"], &builds, done, failure)?;
    }

    let debian = machines_directory().join("debian");
    let image = debian.join(format!("image-{name}"));
    let directory = if profile == "dev" { "debug" } else { profile };
    let built = |build: &str, program: &str| {
        debian.join(build).join(&machine.triple).join(directory).join(program)
    };
    let mut programs = vec![(built("build", "guest"), "init")];
    programs.extend(examples.iter().map(|example| (built("build", example), *example)));
    if *task == Task::Criterion {
        let all = ["measurement", "reads"];
        programs.extend(all.map(|program| (built("build-measurement", program), program)));
    }
    if peers {
        programs.push((built("build", "peers"), "peers"));
    }
    fill(&image, &programs).map_err(|error| format!("{}: {error}", image.display()))?;
    drop(builds);
    if *task == Task::Names {
        add_perf(machine, &image)?;
    }
    let packed = debian.join(format!("{name}.cpio"));
    let packed = File::create(&packed).map_err(|error| format!("{}: {error}", packed.display()))?;
    let pack = format!("cd /image-{name} && find . | cpio --quiet -o -H newc");
    let mut shell = in_debian("sh");
    shell.args(["-c", &pack]).stdin(lock.input()?).stdout(packed);
    succeed(&mut shell, "the guest cannot be packed")
}

fn cargo(
    machine: &Machine,
    profile: &str,
    packages: &[&str],
    builds: &Lock,
    done: &mut Built,
    failure: &str,
) -> Result<(), String> {
    let build = ["build", "--profile", profile, "--target", &machine.triple];
    let build: Vec<String> = build.iter().chain(packages).map(|word| (*word).to_owned()).collect();
    if done.contains(&build) {
        return Ok(());
    }
    succeed(script("cargo").args(&build).stdin(builds.input()?), failure)?;
    done.push(build);
    Ok(())
}

/// Makes the directory anew with copies of programs, each with its name in the image.
fn fill(image: &Path, programs: &[(PathBuf, &str)]) -> io::Result<()> {
    match fs::remove_dir_all(image) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(image)?,
    }
    for (program, name) in programs {
        fs::copy(program, image.join(name))?;
    }
    Ok(())
}

/// Adds perf and its libraries, in the directories where the loader finds them.
fn add_perf(machine: &Machine, image: &Path) -> Result<(), String> {
    if !machine.triple.starts_with("x86_64-") {
        return Err("perf runs on x86-64 only".to_owned());
    }
    for directory in ["perf", "lib64"] {
        fs::create_dir_all(image.join(directory))
            .map_err(|error| format!("{}: {error}", image.display()))?;
    }
    let copy = r#"cp /usr/bin/perf "$0/perf" && cp /bin/true "$0/perf/nothing" &&
        ldd /usr/bin/perf | grep -o '/[^ ]*' | xargs cp -L --parents -t "$0""#;
    let mut shell = in_debian("sh");
    shell.args(["-c", copy]).arg(format!("/image-{}", machine.name));
    succeed(&mut shell, "perf cannot be copied")
}
