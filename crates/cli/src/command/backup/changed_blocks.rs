//! The file of `--changed-blocks`: the ranges of a device that have changed.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_backup::save::ChangedBlocks;
use serde::Deserialize;

use crate::exit::Failure;

/// A range in the JSON of `rbd diff` and `nbdinfo --map`.
#[derive(Deserialize)]
struct JsonRange {
    offset: u64,
    length: u64,
    /// `dirty` or `clean` in a map of a dirty bitmap.
    description: Option<String>,
}

/// Reads the map in `file`; `-` is standard input.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or has another format.
pub(super) fn read(file: &Path) -> Result<ChangedBlocks> {
    let name = || format!("map of changed blocks {}", file.display());
    let mut text = String::new();
    if file == Path::new("-") {
        io::stdin().lock().read_to_string(&mut text).with_context(name)?;
    } else {
        text = fs::read_to_string(file).with_context(name)?;
    }
    let ranges = parse(&text).map_err(|problem| {
        let remedy = "each line is an offset and a length in bytes; `rbd diff --format json` and \
                      `nbdinfo --json --map=qemu:dirty-bitmap:NAME` are understood as well";
        Failure::failed(format!("{}: {problem}", name())).with_remedy(remedy)
    })?;
    Ok(ChangedBlocks::new(ranges))
}

/// Parses a map. Returns the problem if that is not possible.
fn parse(text: &str) -> Result<Vec<Range<u64>>, String> {
    if text.trim_start().starts_with('[') {
        let list: Vec<JsonRange> = serde_json::from_str(text)
            .map_err(|error| format!("no list of ranges in JSON: {error}"))?;
        let mut ranges = Vec::with_capacity(list.len());
        for JsonRange { offset, length, description } in list {
            match description.as_deref() {
                Some("clean") => {}
                None | Some("dirty") => ranges.push(range(offset, length)?),
                Some(other) => {
                    return Err(format!(
                        "a range is {other:?} (expected \"dirty\" or \"clean\"): this map does not \
                         say what has changed"
                    ));
                }
            }
        }
        return Ok(ranges);
    }
    let mut ranges = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let numbers: Option<Vec<u64>> = line.split_whitespace().map(number).collect();
        let Some([offset, length]) = numbers.as_deref() else {
            return Err(format!("line {}: {line:?} (expected an offset and a length)", index + 1));
        };
        ranges.push(range(*offset, *length)?);
    }
    Ok(ranges)
}

/// Parses a decimal number, or a hexadecimal one that begins with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn range(offset: u64, length: u64) -> Result<Range<u64>, String> {
    let end = offset.checked_add(length);
    end.map(|end| offset..end).ok_or_else(|| format!("{length} bytes at {offset} end nowhere"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_programs_are_understood() {
        let text = "# changed\n0 4096\n\n  0x2000 512 # hexadecimal\n";
        assert_eq!(parse(text), Ok(vec![0..4096, 8192..8704]), "text");
        let rbd = r#"[{"offset":0,"length":4194304,"exists":"true"},
            {"offset":8388608,"length":10,"exists":"false"}]"#;
        assert_eq!(parse(rbd), Ok(vec![0..4_194_304, 8_388_608..8_388_618]), "rbd diff");
        let nbd = r#"[{ "offset": 0, "length": 65536, "type": 0, "description": "clean" },
            { "offset": 65536, "length": 65536, "type": 1, "description": "dirty" }]"#;
        assert_eq!(parse(nbd), Ok(std::iter::once(65536..131_072).collect()), "nbdinfo");
        assert_eq!(parse(""), Ok(vec![]), "nothing has changed");
    }

    #[test]
    fn other_maps_are_refused() {
        let of_allocation = r#"[{"offset":0,"length":1,"type":3,"description":"hole,zero"}]"#;
        let of_qemu = r#"[{"start":0,"length":1,"depth":0,"zero":false,"data":true}]"#;
        for text in [
            of_allocation,
            of_qemu,
            "[",
            "1",
            "1 2 3",
            "a b",
            "-1 5",
            "18446744073709551615 2",
            r#"[{"offset":-1,"length":1}]"#,
        ] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
