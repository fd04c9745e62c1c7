//! huggingface/xet-core: `chunker__MIN_TARGET_MAX`.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [kind, sizes] = &name.parameters[..] else { return None };
    let words: Vec<&str> = sizes.split('_').filter(|_| kind == "chunker").collect();
    let [min, target, max] = words[..] else { return None };
    let (min, target, max) = (number(min, "")?, number(target, "")?, number(max, "")?);
    Some(format!("xet:min={min},target={target},max={max}"))
}
