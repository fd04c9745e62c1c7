//! The names of the files of a volume.

/// The name of the superblock, and of its copy.
pub(crate) const SUPERBLOCKS: [&str; 2] = ["volume", "volume.copy"];

const SEGMENT: &str = "segment-";
const CHECKPOINT: &str = "checkpoint-";
const PART: &str = "part-";
const KEY: &str = "key-";
const COPY: &str = ".copy";

/// Returns the name of a segment of the log.
pub(crate) fn segment(number: u64) -> String {
    format!("{SEGMENT}{number:016x}")
}

/// Returns the names of a checkpoint and of its copy.
pub(crate) fn checkpoint(number: u64) -> [String; 2] {
    let name = format!("{CHECKPOINT}{number:016x}");
    [name.clone(), name + COPY]
}

/// Returns the name of a part of a run of the tables.
pub(crate) fn part(number: u64) -> String {
    format!("{PART}{number:016x}")
}

/// Returns the number of the part of a run with this name.
pub(crate) fn parse_part(name: &str) -> Option<u64> {
    number(name.strip_prefix(PART)?)
}

/// Returns the names of the file of a key and of its copy.
pub(crate) fn key(number: u64) -> [String; 2] {
    let name = format!("{KEY}{number:016x}");
    [name.clone(), name + COPY]
}

/// Returns the number of the key with this name, or of which it is the copy.
pub(crate) fn parse_key(name: &str) -> Option<u64> {
    let name = name.strip_suffix(COPY).unwrap_or(name);
    number(name.strip_prefix(KEY)?)
}

/// Returns the number of the segment with this name.
pub(crate) fn parse_segment(name: &str) -> Option<u64> {
    number(name.strip_prefix(SEGMENT)?)
}

/// Returns the number of the checkpoint with this name, or of which it is the copy.
pub(crate) fn parse_checkpoint(name: &str) -> Option<u64> {
    let name = name.strip_suffix(COPY).unwrap_or(name);
    number(name.strip_prefix(CHECKPOINT)?)
}

/// Parses 16 lower-case hex digits.
fn number(digits: &str) -> Option<u64> {
    let is_number = digits.len() == 16
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_parsed_from_its_name_only() {
        assert_eq!(parse_segment(&segment(0x1f)), Some(0x1f));
        for name in checkpoint(7) {
            assert_eq!(parse_checkpoint(&name), Some(7), "{name}");
        }
        for name in ["segment-1", "segment-000000000000001F", "segment-+00000000000001f", "volume"]
        {
            assert_eq!(parse_segment(name), None, "{name}");
        }
    }
}
