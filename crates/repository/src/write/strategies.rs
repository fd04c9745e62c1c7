//! The strategy that the settings of a repository select.

use super::burst::{BurstExtra, Bursts};
use super::previous::DeltaEncoder;
use super::strategy::{DeltaStrategy, SimilarityExtra};
use crate::format::config::Config;
use crate::format::names::TicketId;
use crate::index::Index;
use crate::read::Reader;

/// Returns the strategy by which new chunks are compared, or `None` if the settings ask for none.
/// The strategy reads old chunks by `reader`, and refers to what `index` allows. `own` is the
/// ticket of the writer. If `with_recent` is set, the strategy may compare chunks with those of the
/// same run: where [`DeltaStrategy::recent_regions`] returns a place, every encoded region must be put
/// there, and its waits be ended if the run ends early.
#[must_use]
pub fn delta_strategy<'a>(
    config: &Config,
    reader: &'a Reader,
    index: &'a Index,
    own: TicketId,
    with_recent: bool,
) -> Option<Box<dyn DeltaStrategy + 'a>> {
    match config.burst() {
        Some(options) => Some(Box::new(Bursts::new(options, reader, index, own))),
        None if config.uses_delta_chunks() => {
            let encoder = DeltaEncoder::new(reader, index, own);
            Some(Box::new(if with_recent { encoder.with_recent() } else { encoder }))
        }
        None => None,
    }
}

/// Returns the addition of the strategy to similarity objects, if it has one.
pub(super) fn similarity_extra(config: &Config) -> Option<Box<dyn SimilarityExtra>> {
    let options = config.burst()?;
    Some(Box::new(BurstExtra::new(options.tau)))
}
