//! Crates mincdc and mothcdc: `mincdchash4__MIN_MAX`, `mincdc4__MIN_MAX`, `moth_segments__MIN_MAX`.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [kind, sizes] = &name.parameters[..] else { return None };
    let (min, max) = sizes.split_once('_')?;
    let (min, max) = (number(min, "")?, number(max, "")?);
    match kind.as_str() {
        "mincdchash4" => Some(format!("mincdc:min={min},max={max}")),
        // The list has runs of equal chunks as one: see [`List::ends_by`](super::List::ends_by).
        "moth_segments" => Some(format!("mincdc:min={min},max={max}")),
        "mincdc4" => Some(format!("mincdc:min={min},max={max},value=plain")),
        _ => None,
    }
}
