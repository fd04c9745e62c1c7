//! Crate gearhash: `next_match_reset__bitsB` and `next_match_carry__bitsB`, without size limits.

use super::{Inputs, Name, number};

pub(super) fn spec(name: &Name, _inputs: &mut Inputs) -> Option<String> {
    let [rule, bits] = &name.parameters[..] else { return None };
    let bits = number(bits, "bits")?;
    match rule.as_str() {
        "next_match_reset" => Some(format!("gear:bits={bits},table=gearhash")),
        "next_match_carry" => Some(format!("gear:bits={bits},table=gearhash,start=carry")),
        _ => None,
    }
}
