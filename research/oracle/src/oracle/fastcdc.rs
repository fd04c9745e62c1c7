//! Crate fastcdc: `v2016__A_B_C_ncL` and `v2020__...`, optionally with `_seedS`, and
//! `ronomon__A_B_C`.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [version, parameters] = &name.parameters[..] else { return None };
    if version == "ronomon" {
        let words: Vec<&str> = parameters.split('_').collect();
        let [min, average, max] = words[..] else { return None };
        let (min, average, max) = (number(min, "")?, number(average, "")?, number(max, "")?);
        return Some(format!("ronomon:min={min},average={average},max={max}"));
    }
    if version != "v2016" && version != "v2020" {
        return None;
    }
    let words: Vec<&str> = parameters.split('_').collect();
    let (words, seed) = match words[..] {
        [ref words @ .., seed] if seed.starts_with("seed") => (words, &seed[4..]),
        ref words => (words, "0"),
    };
    let [min, normal, max, level] = *words else { return None };
    let (min, normal, max) = (number(min, "")?, number(normal, "")?, number(max, "")?);
    let level = number(level, "nc")?;
    // A seed of 16 digits is hexadecimal, and any other seed is decimal.
    let seed =
        if seed.len() == 16 { u64::from_str_radix(seed, 16).ok()? } else { number(seed, "")? };
    Some(format!("fastcdc:level={level},min={min},normal={normal},max={max},seed={seed}"))
}
