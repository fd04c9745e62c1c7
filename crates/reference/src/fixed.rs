//! Chunks of one size.

use crate::{Rule, Values};

pub(crate) fn rule(values: &Values) -> Rule {
    let size = values.number("size");
    Box::new(move |data| data.len().min(size))
}
