//! Files of results: read as a whole, and replaced as a whole.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The search for a name that no file has ends with this number.
const MAX_NUMBER: u32 = 10_000;

/// Larger files are not results.
const LARGEST: u64 = 64 << 20;

/// Reads a file.
///
/// # Errors
/// Those of reading, and an error if it is not a regular file, which might never end, or is larger than 64 MiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut all = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut all)?;
    match all.len() as u64 {
        0..=LARGEST => Ok(all),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 64 MiB")),
    }
}

/// Reads JSON in which no object has a key twice.
///
/// # Errors
/// Says what the text is instead.
pub fn json(text: &[u8]) -> Result<Value, String> {
    let json: Value = serde_json::from_slice(text).map_err(|why| format!("not JSON: {why}"))?;
    // `serde_json` keeps the last value of such a key. Each key has a colon. Outside of strings there are no others.
    let (mut colons, mut is_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_string = !is_string,
            b':' if !is_string => colons += 1,
            _ => {}
        }
    }
    if colons == keys(&json) { Ok(json) } else { Err("damaged: a key occurs twice".into()) }
}

/// Returns the number of keys in all objects. The depth is limited by `serde_json`.
fn keys(json: &Value) -> usize {
    match json {
        Value::Object(all) => all.len() + all.values().map(keys).sum::<usize>(),
        Value::Array(all) => all.iter().map(keys).sum(),
        _ => 0,
    }
}

/// Replaces a file, or makes a new one. It is written beside, synchronised and renamed. So a reader sees the old file or the new
/// one, and the old one remains if writing fails.
///
/// # Errors
/// Those of writing.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // A link stays a link.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    // A device or a link to nothing would be lost.
    let old = fs::symlink_metadata(path);
    if old.as_ref().is_ok_and(|old| !old.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    remove_what_was_left(path);
    // Other threads and processes may save at the same time.
    let (mut file, beside) = loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut beside = name.to_owned();
        beside.push(format!(".{}-{}-{number}.tmp", namespace(), std::process::id()));
        let beside = path.with_file_name(beside);
        match File::create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_NUMBER => {}
            made => break (made?, beside),
        }
    };
    let mut write = || {
        if let Ok(old) = &old {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(content)?;
        // The name must not appear before the content, not even after a power failure.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Returns the number of this process's PID namespace: elsewhere, as in another container, its number is that of another process. 0 if it is not
/// known.
fn namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = link.to_string_lossy();
    text.trim_matches(|character: char| !character.is_ascii_digit()).parse().unwrap_or(0)
}

/// Removes the files beside `path` of processes that were killed while they saved it.
fn remove_what_was_left(path: &Path) {
    let (Some(name), Some(directory)) = (path.file_name(), path.parent()) else { return };
    let namespace = match namespace() {
        0 => return,
        known => known.to_string(),
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let name = name.to_string_lossy();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let process = || {
            let numbers = file.strip_prefix(&*name)?.strip_prefix('.')?.strip_suffix(".tmp")?;
            let (of, numbers) = numbers.split_once('-')?;
            let (process, number) = numbers.split_once('-').filter(|_| of == namespace)?;
            number.parse::<u32>().ok()?;
            process.parse::<u32>().ok()
        };
        let has_ended = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
        if process().is_some_and(has_ended) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two threads save again and again. Every read has all of one of them.
    #[test]
    fn a_reader_never_sees_half_a_file() {
        let directory =
            std::env::temp_dir().join(format!("rdpmc-gate-file-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("saved.json");
        let contents = [vec![b'a'; 100_000], vec![b'b'; 50_000]];
        replace(&path, &contents[0]).unwrap();
        std::thread::scope(|scope| {
            let writers = contents.each_ref().map(|content| {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| replace(path, content).unwrap()))
            });
            while writers.iter().any(|writer| !writer.is_finished()) {
                assert!(contents.contains(&read(&path).unwrap()));
            }
        });
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_killed_process_left_is_removed() {
        let directory =
            std::env::temp_dir().join(format!("rdpmc-gate-left-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("saved.json");
        // No process has this number, and this one lives.
        let namespace = namespace();
        let left = directory.join(format!("saved.json.{namespace}-{}-7.tmp", u32::MAX));
        let others = [
            format!("saved.json.{namespace}-{}-70000.tmp", std::process::id()),
            format!("saved.json.{}-{}-7.tmp", namespace + 1, u32::MAX),
            format!("other.json.{namespace}-4294967295-7.tmp"),
            format!("saved.json.{namespace}-4294967295-7.tmp.mine"),
            "saved.json.4294967295-7.tmp".to_owned(),
            "saved.json.x-7.tmp".to_owned(),
        ]
        .map(|name| directory.join(name));
        others.iter().chain([&left]).for_each(|file| fs::write(file, "").unwrap());
        replace(&path, b"new").unwrap();
        assert!(!left.exists() && others.iter().all(|file| file.exists()));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_key_is_there_once() {
        for whole in [
            r#"{}"#,
            r#"[{"a": 1, "b": {"a": ":"}}, {"a": [{"a": null}]}]"#,
            r#"{"a\":": "\\", "\\": "\": :", "\u003a": {}}"#,
        ] {
            assert!(json(whole.as_bytes()).is_ok(), "{whole}");
        }
        for twice in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": {"c": 2}, "a": 1}}]"#,
            r#"{"\"": "", "\u0022": ""}"#,
        ] {
            assert_eq!(
                json(twice.as_bytes()).unwrap_err(),
                "damaged: a key occurs twice",
                "{twice}"
            );
        }
        assert!(json(b"{").is_err());
    }

    #[test]
    fn failures_leave_the_old_file() {
        let directory =
            std::env::temp_dir().join(format!("rdpmc-gate-lost-{}", std::process::id()));
        assert!(replace(&directory.join("saved.json"), b"new").is_err(), "no directory");
        fs::create_dir_all(directory.join("a directory")).unwrap();
        assert!(replace(&directory.join("a directory"), b"new").is_err());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", directory.join("link")).unwrap();
            assert!(replace(&directory.join("link"), b"new").is_err());
            fs::remove_file(directory.join("link")).unwrap();
        }
        assert!(replace(Path::new("/"), b"new").is_err());
        assert!(read(&directory).is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }
}
