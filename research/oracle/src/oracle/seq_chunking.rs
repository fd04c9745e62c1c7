//! Crate seq_chunking: `inc_L_T_J__A_B`. A jump of the crate is a skip of one byte less.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [rule, sizes] = &name.parameters[..] else { return None };
    let words: Vec<&str> = rule.split('_').collect();
    let [mode, length, trigger, jump] = words[..] else { return None };
    let (min, max) = sizes.split_once('_')?;
    let (length, trigger) = (number(length, "")?, number(trigger, "")?);
    let (jump, min, max) = (number(jump, "")?, number(min, "")?, number(max, "")?);
    let skip = jump.checked_sub(1)?;
    Some(format!(
        "seqcdc:mode={mode},length={length},trigger={trigger},skip={skip},min={min},max={max}"
    ))
}
