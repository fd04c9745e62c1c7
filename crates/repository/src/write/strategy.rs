//! The interface of the strategies: what a new chunk is compared with.
//!
//! A strategy finds old bytes for new chunks, in the ordered stage of a backup. It may also add
//! hints to similarity objects, by which the strategy of a later backup finds the new chunks. Those
//! are made where containers are sealed, so both halves are separate values.

use std::fmt::Debug;
use std::sync::Arc;

use cutpoint_storage::Result;

use super::burst::BurstStatistics;
use super::cost::Limit;
use super::delta::Delta;
use super::previous::RegionsAhead;
use super::recent::RecentRegions;
use super::region::RawRegion;
use crate::crypto::Keys;
use crate::format::bursts::BurstCount;
use crate::format::fingerprint::Fingerprint;
use crate::format::map::Extra;
use crate::format::names::PartName;
use crate::format::recipe::Content;
use crate::format::toc::Form;

/// Stores a delta for the present chunk if its cost is within the limit. Returns `true` if the
/// delta was stored.
pub type StoreDelta<'a> = dyn FnMut(&Delta, Limit) -> Result<bool> + 'a;

/// A strategy: what a new chunk is compared with, for one backup.
pub trait DeltaStrategy: Debug + Send {
    /// Begins a stream that is a new version of `previous`, or a stream without one.
    fn begin(&mut self, _previous: Option<&Content>) {}

    /// Skips a known chunk of `len` bytes of the present stream.
    ///
    /// # Errors
    ///
    /// Returns any error of the index or the storage.
    fn skip(&mut self, _fingerprint: &Fingerprint, _len: usize) -> Result<()> {
        Ok(())
    }

    /// Passes deltas for the new chunk `chunk` to `store` until one was stored. Returns the
    /// containers of other writers that the stored delta refers to, or `None` if `chunk` is to be
    /// stored as a full chunk.
    ///
    /// # Errors
    ///
    /// Returns any error of `store`, of the index or of the storage.
    fn encode(&mut self, chunk: &[u8], store: &mut StoreDelta<'_>)
    -> Result<Option<Vec<PartName>>>;

    /// Takes note that a new chunk was stored, as a full chunk if `is_full` is set.
    fn stored(&mut self, _fingerprint: Fingerprint, _chunk: &[u8], _is_full: bool) {}

    /// Takes note of regions that are full. Those of earlier calls must have been handed over to be
    /// encoded.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the run has ended.
    fn stored_regions(&mut self, _regions: &[RawRegion]) -> Result<()> {
        Ok(())
    }

    /// Returns the place where encoded regions are to be put, if the strategy reads them.
    fn recent_regions(&self) -> Option<Arc<RecentRegions>> {
        None
    }

    /// Returns the regions that another thread may decode ahead, if the strategy wants any.
    fn regions_ahead(&self) -> Option<Arc<RegionsAhead>> {
        None
    }

    /// Returns `true` if deltas may copy from anywhere in the old bytes, so that one changed file
    /// in a chunk of several small files costs only its own changes.
    fn is_fine_grained(&self) -> bool;

    /// Returns what the strategy records for later backups.
    fn record(&self) -> StrategyRecord {
        StrategyRecord::default()
    }

    /// Returns the counters of BURST, if this is BURST.
    fn burst_statistics(&self) -> Option<BurstStatistics> {
        None
    }
}

/// The results of a backup that its strategy records for later ones, in a similarity object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyRecord {
    pub(super) bursts: Vec<BurstCount>,
}

/// The addition of a strategy to similarity objects.
pub(super) trait SimilarityExtra: Debug + Send {
    /// Adds a chunk of the open container of file data.
    fn add(&mut self, keys: &Keys, form: Form, chunk_len: u32, payload: Option<&[u8]>);

    /// Returns the number of hints about the open container.
    fn open_count(&self) -> usize;

    /// Ends the open container.
    fn close(&mut self);

    /// Sets the record for the next object.
    fn record(&mut self, record: StrategyRecord);

    /// Returns `true` if there is a record for the next object.
    fn has_record(&self) -> bool;

    /// Returns the number of hints about closed containers.
    fn count(&self) -> usize;

    /// Returns the extra of the next object, and begins another.
    fn take(&mut self) -> Extra;
}
