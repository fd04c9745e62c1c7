//! desync: `desync_buzhash48__MIN_AVERAGE_MAX`. desync tests from one byte after its minimum size
//! on.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    let [min, average, max] = words[..] else { return None };
    let (min, max) = (number(min, "")? + 1, number(max, "")?);
    let average = number(average, "")? as f64;
    // The divisor that is fitted to the average, rounded down.
    let divisor = (average / (-1.428_888_52e-7 * average + 1.332_375_15)).floor();
    let remainder = divisor - 1.0;
    Some(format!(
        "buzhash:divisor={divisor},remainder={remainder},window=48,table=casync,min={min},max={max}"
    ))
}
