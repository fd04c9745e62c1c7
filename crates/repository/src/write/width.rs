//! Conversion of lengths and numbers to the widths that the format has for them.

use std::fmt::Display;

use cutpoint_storage::{Error, Result};

/// Returns `value` in the width in which the format stores it. `object` names the value.
///
/// # Errors
///
/// Returns `Invalid` if `value` does not fit.
pub(super) fn narrow<T>(value: impl Copy + Display + TryInto<T>, object: &str) -> Result<T> {
    let message = || format!("{value} is more than the format can store");
    value.try_into().map_err(|_| Error::invalid(object, message()))
}
