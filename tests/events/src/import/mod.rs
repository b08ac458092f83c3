//! Reads the vendors' files.

pub(crate) mod amd;
pub(crate) mod arm;
pub(crate) mod intel;
mod linux;
pub(crate) mod riscv;

use std::fs;
use std::path::Path;

fn text(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

pub(crate) fn json(path: &Path) -> Result<serde_json::Value, String> {
    serde_json::from_str(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))
}
