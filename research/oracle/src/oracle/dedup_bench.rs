//! UWASL/dedup-bench: `NAME_Nk_...`, run with buffers of the maximum size.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    match words[..] {
        ["seqcdc", mode, _nominal, length, trigger, skip, min, max] => {
            let (length, trigger) = (number(length, "len")?, number(trigger, "trig")?);
            let (skip, min, max) =
                (number(skip, "skip")?, number(min, "min")?, number(max, "max")?);
            Some(format!(
                "seqcdc:mode={mode},length={length},trigger={trigger},skip={skip},min={min},max={max}"
            ))
        }
        // The nominal size is the average, at which the masks change.
        ["fastcdc", nominal, level, min, max] => {
            let normal = number(nominal.strip_suffix('k')?, "")? * 1024;
            let level = number(level, "nl")?;
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!(
                "fastcdc:level={level},min={min},normal={normal},max={max},form=dedup-bench"
            ))
        }
        ["gear", nominal, min, max] => {
            let bits = log2(nominal)?;
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!(
                "gear:bits={bits},table=dedup-bench,start=cold,cut=before,min={min},max={max}"
            ))
        }
        ["rabin", nominal, window, min, max] => {
            let (bits, window) = (log2(nominal)?, number(window, "win")?);
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!("rabin:bits={bits},window={window},start=one,min={min},max={max}"))
        }
        // Both divisors are powers of two.
        ["tttd", nominal, window, min, max] => {
            let (divisor, window) = (1u64 << log2(nominal)?, number(window, "win")?);
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!(
                "tttd:divisor={divisor},window={window},remainder=0,start=cold,cut=before,\
                 end=backup,min={min},max={max}"
            ))
        }
        ["crc", _nominal, window, bits, min, max] => {
            let (window, bits) = (number(window, "win")?, number(bits, "bits")?);
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!("crc:bits={bits},window={window},cut=before,min={min},max={max}"))
        }
        // The maximum size is the size of the buffer.
        ["aemax" | "aemin", _nominal, window, max] => {
            let mode = words[0].strip_prefix("ae")?;
            let (window, max) = (number(window, "win")?, number(max, "max")?);
            Some(format!("ae:mode={mode},window={window},cut=before,max={max}"))
        }
        ["ram", _nominal, window, max] => {
            let (window, max) = (number(window, "win")?, number(max, "max")?);
            Some(format!("ram:window={window},cut=before,max={max}"))
        }
        ["maxp", _nominal, window, max] => {
            let (window, max) = (number(window, "win")?, number(max, "max")?);
            Some(format!("maxp:window={window},max={max}"))
        }
        _ => None,
    }
}

/// The logarithm of `4k`, rounded down.
fn log2(nominal: &str) -> Option<u32> {
    (number(nominal.strip_suffix('k')?, "")? * 1024).checked_ilog2()
}
