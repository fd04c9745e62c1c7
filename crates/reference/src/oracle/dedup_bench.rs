//! UWASL/dedup-bench: `NAME_Nk_...`, run with buffers of the largest size.

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
        // The average is the nominal size, and where the masks change.
        ["fastcdc", nominal, level, min, max] => {
            let normal = number(nominal.strip_suffix('k')?, "")? * 1024;
            let level = number(level, "nl")?;
            let (min, max) = (number(min, "min")?, number(max, "max")?);
            Some(format!(
                "fastcdc:level={level},min={min},normal={normal},max={max},form=dedup-bench"
            ))
        }
        // The largest size is that of the buffer.
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
