//! The code of Gregoriadis et al., "A Thorough Investigation": `NAME_PARAMETERS`, without limits.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let words: Vec<&str> = name.parameters.first()?.split('_').collect();
    match words[..] {
        ["ae", window] => Some(format!("ae:mode=max,window={}", number(window, "h")?)),
        // Its plain form takes the maximum of one byte more than the algorithm says.
        ["ram", window] => Some(format!("ram:window={}", number(window, "h")? + 1)),
        ["ramopt", window] => Some(format!("ram:window={}", number(window, "h")?)),
        ["mii", length] => Some(format!("mii:length={},first=0", number(length, "w")?)),
        _ => None,
    }
}
