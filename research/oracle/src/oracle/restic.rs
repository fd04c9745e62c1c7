//! restic/chunker: `restic-chunker_polP__MIN_bitsB_MAX`, with a window of 64 bytes.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let polynomial =
        u64::from_str_radix(name.family.strip_prefix("restic-chunker_pol")?, 16).ok()?;
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    let [min, bits, max] = words[..] else { return None };
    let (min, bits, max) = (number(min, "")?, number(bits, "bits")?, number(max, "")?);
    Some(format!("rabin:bits={bits},window=64,poly={polynomial:#x},min={min},max={max}"))
}
