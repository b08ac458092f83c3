//! `/sys/bus/event_source/devices` of machines that are not at hand: one file each, as `grep -r .` prints it,
//! unpacked into a directory.
#![allow(dead_code, unreachable_pub)]

use rdpmc::pmu::Pmus;
use std::fs;
use std::path::{Path, PathBuf};

pub const NAMES: [&str; 7] = [
    "amd-zen",
    "arm64-big-little",
    "arm64-server",
    "intel-hybrid",
    "intel-server",
    "riscv64",
    "virtual-machine",
];

fn text_of(name: &str) -> &'static str {
    match name {
        "amd-zen" => include_str!("amd-zen"),
        "arm64-big-little" => include_str!("arm64-big-little"),
        "arm64-server" => include_str!("arm64-server"),
        "intel-hybrid" => include_str!("intel-hybrid"),
        "intel-server" => include_str!("intel-server"),
        "riscv64" => include_str!("riscv64"),
        "virtual-machine" => include_str!("virtual-machine"),
        other => panic!("no machine {other}"),
    }
}

/// One of them, unpacked while this lives.
pub struct Machine {
    pub name: &'static str,
    /// The directory that stands for `/sys`.
    root: PathBuf,
    /// Path and text of each file.
    pub files: Vec<(String, String)>,
}

impl Machine {
    /// Unpacks it into `CARGO_TARGET_TMPDIR`, which cargo tells only those that compile a test.
    pub fn new(temporary: &str, name: &'static str, test: &str) -> Machine {
        let lines = text_of(name).lines().filter(|line| !line.starts_with('#'));
        let files: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        let root = Path::new(temporary).join(format!("{test}-{name}"));
        let folder = root.join("bus/event_source/devices");
        let _ = fs::remove_dir_all(&root);
        for (path, text) in &files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        Machine { name, root, files }
    }

    pub fn pmus(&self) -> Pmus {
        Pmus::from_dir(self.root.join("bus/event_source/devices"))
    }

    /// Returns the directory that stands for `/sys`, with the rest of this machine's.
    pub fn sys(&self) -> &Path {
        let devices = self.root.join("devices");
        if !devices.exists() {
            std::os::unix::fs::symlink("/sys/devices", devices).unwrap();
        }
        &self.root
    }

    /// Returns the text of the file at `path`.
    pub fn file(&self, path: &str) -> Option<&str> {
        let (_, text) = self.files.iter().find(|(known, _)| known == path)?;
        Some(text)
    }

    /// Returns the files in `PMU/KIND/`, for example names of events and their texts.
    pub fn of(&self, pmu: &str, kind: &str) -> Vec<(&str, &str)> {
        let inside = |path: &str| {
            path.strip_prefix(pmu)?
                .strip_prefix('/')?
                .strip_prefix(kind)?
                .strip_prefix('/')
                .map(str::len)
        };
        self.files
            .iter()
            .filter_map(|(path, text)| {
                let length = inside(path)?;
                Some((&path[path.len() - length..], text.as_str()))
            })
            .collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
