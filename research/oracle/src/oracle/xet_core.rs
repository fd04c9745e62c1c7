//! xet-core: `chunker__MIN_TARGET_MAX`. The hash begins so far before the minimum size that earlier
//! bytes have no effect.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [rule, sizes] = &name.parameters[..] else { return None };
    let words: Vec<&str> = sizes.split('_').collect();
    let ("chunker", [min, target, max]) = (rule.as_str(), &words[..]) else { return None };
    let bits = number(target, "")?.checked_ilog2()?;
    let (min, max) = (number(min, "")?, number(max, "")?);
    Some(format!("gear:bits={bits},table=gearhash,min={min},max={max}"))
}
