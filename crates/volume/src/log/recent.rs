//! The last records of the log.

use std::collections::VecDeque;

use crate::format::record::SUMMARIZED_MAX;
use crate::format::summary::Summarized;

/// Adds a record to the last ones.
pub(super) fn remember(recent: &mut VecDeque<Summarized>, record: Summarized) {
    if recent.len() == SUMMARIZED_MAX {
        recent.pop_front();
    }
    recent.push_back(record);
}
