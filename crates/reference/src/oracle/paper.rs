//! The code of Gregoriadis et al., "A Thorough Investigation": `NAME_PARAMETERS`, without limits, and
//! `tTARGET` where the file's name has the target.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    match words[..] {
        ["ae", window] => Some(format!("ae:mode=max,window={}", number(window, "h")?)),
        // Its plain form takes the maximum of one byte more than the algorithm says.
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
        _ => None,
    }
}

fn target(name: &Name) -> Option<u64> {
    number(name.parameters.get(1)?, "t")
}

/// The logarithm, rounded to the nearest number.
fn bits(size: u64) -> u64 {
    (0..64).find(|&bits| bits as f64 == (size as f64).log2().round()).unwrap_or(0)
}
