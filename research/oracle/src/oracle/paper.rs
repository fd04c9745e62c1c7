//! The code of Gregoriadis et al., "A Thorough Investigation": `NAME_PARAMETERS`, without size
//! limits, and `tTARGET` if the file name has the target.

use std::fs;

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let (kind, parameters) = (name.parameters.first()?, name.parameters.get(1));
    if kind == "bfbc" || kind == "bfbcstar" {
        return bfbc(name, kind, number(parameters?, "t")?);
    }
    let words: Vec<&str> = kind.split('_').collect();
    match words[..] {
        ["ae", window] => Some(format!("ae:mode=max,window={}", number(window, "h")?)),
        // The plain form takes the maximum of one byte more than the algorithm.
        ["ram", window] => Some(format!("ram:window={}", number(window, "h")? + 1)),
        ["ramopt", window] => Some(format!("ram:window={}", number(window, "h")?)),
        ["mii", length] => Some(format!("mii:length={},first=0", number(length, "w")?)),
        ["gear32"] => Some(format!("gear:bits={},table=cdchunking", bits(target(name)?))),
        ["gear64"] => Some(format!("gear:bits={},table=gearhash", bits(target(name)?))),
        ["nc1" | "nc2" | "nc3"] => {
            let (level, target) = (number(words[0], "nc")?, target(name)?);
            let bits = bits(target);
            Some(format!("gear:bits={bits},level={level},normal={target},table=cdchunking"))
        }
        ["buzhash", window] => {
            let window = number(window, "w")?;
            let divisor = 1u64 << bits(target(name)?.checked_sub(window)?);
            Some(format!("buzhash:divisor={divisor},window={window},table=bita,runs=early"))
        }
        ["rabin", window] => {
            let window = number(window, "w")?;
            let bits = bits(target(name)?.checked_sub(window)?);
            Some(format!("rabin:bits={bits},window={window}"))
        }
        ["pci", window, threshold] => {
            let (window, threshold) = (number(window, "w")?, number(threshold, "th")?);
            Some(format!("pci:window={window},threshold={threshold}"))
        }
        _ => None,
    }
}

fn target(name: &Name) -> Option<u64> {
    number(name.parameters.get(1)?, "t")
}

/// Returns the binary logarithm, rounded to the nearest integer.
fn bits(size: u64) -> u64 {
    (0..64).find(|&bits| bits as f64 == (size as f64).log2().round()).unwrap_or(0)
}

/// Returns the spec of BFBC. The pairs are in another file of the folder, which has a line
/// `input,kind,target,min,pairs` for each list, with the pairs separated by spaces.
fn bfbc(name: &Name, kind: &str, target: u64) -> Option<String> {
    let text = fs::read_to_string(name.folder.join("bfbc_divisors.csv")).ok()?;
    let target = target.to_string();
    text.lines().find_map(|line| {
        let columns: Vec<&str> = line.split(',').collect();
        let [of_input, of_kind, of_target, min, pairs] = columns[..] else { return None };
        if (of_input, of_kind, of_target) != (&*name.input, kind, &*target) {
            return None;
        }
        let pairs: Vec<&str> = pairs.split_whitespace().collect();
        let pairs = if pairs.is_empty() { "none".to_owned() } else { pairs.join(".") };
        Some(format!("bfbc:pairs={pairs},min={min}"))
    })
}
