//! PlakarKorp/go-cdc-chunkers: `plakar_NAME__MIN_NORMAL_MAX`, for its UltraCDC and JC.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    let [min, normal, max] = words[..] else { return None };
    let (min, normal, max) = (number(min, "")?, number(normal, "")?, number(max, "")?);
    match name.family.as_str() {
        "plakar_ultracdc-v1.0.0" => Some(format!("ultracdc:min={min},normal={normal},max={max}")),
        // The jump is half of the largest power of two up to the normal size. The masks are the
        // same for all sizes.
        "plakar_jc-v1.1.0" => {
            let jump = 1 << (normal.checked_ilog2()? - 1);
            Some(format!("jc:bits=11,jump={jump},form=plakar,min={min},max={max}"))
        }
        _ => None,
    }
}
