//! Where what is needed lies: needs and hints, both sorted, are gone through together.
//!
//! Hints only narrow. Where one container alone may have what is needed, that one stays. Wherever
//! there is a choice, directories decide, by all 32 bytes; where not even they help, nothing goes.
//! And nothing goes whose directory has other chunks than hints say.
//!
//! What snapshots reach is met by a record of either form, better by a whole. What composites refer
//! to that stay is needed as a whole (rule C2): so where a container has composites, directories
//! decide as well. References count by region: of a region in which any composite stays, all do.

mod container;
mod join;
mod lookup;
mod need;
mod weigh;

use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::sorted::{Iter, Sorted};
pub(crate) use container::{Container, KeptChunks, list_containers, staying, staying_numbers};
pub(crate) use lookup::Lookup;
pub(crate) use need::{NEED_LEN, Need, Needs};

/// The number of a container, then a need.
const PLACED_LEN: usize = 4 + NEED_LEN;
/// Instead of a container: no place is known that may be kept.
const NO_CONTAINER: u32 = u32::MAX;

fn placed(container: u32, need: &[u8; NEED_LEN]) -> [u8; PLACED_LEN] {
    let mut record = [0; PLACED_LEN];
    record[..4].copy_from_slice(&container.to_be_bytes());
    record[4..].copy_from_slice(need);
    record
}

fn unplace(record: &[u8; PLACED_LEN]) -> (u32, [u8; NEED_LEN]) {
    let (mut container, mut need) = ([0; 4], [0; NEED_LEN]);
    container.copy_from_slice(&record[..4]);
    need.copy_from_slice(&record[4..]);
    (u32::from_be_bytes(container), need)
}

/// What came of looking everything up.
#[derive(Debug)]
pub(crate) struct Places {
    /// All containers that the index, or the caller, names.
    pub(crate) containers: Vec<Container>,
    kept: Sorted<PLACED_LEN>,
    /// What only condemned containers have.
    pub(crate) going: Vec<Need>,
    /// Composites that are better stored again as wholes than kept with what they refer to.
    pub(crate) dissolved: Vec<(Class, Fingerprint)>,
    /// Their size, in bytes.
    pub(crate) dissolved_bytes: u64,
    /// The size of the containers that had stayed for them alone.
    pub(crate) released_bytes: u64,
    /// What is nowhere: the first thousand.
    pub(crate) lost: Vec<(Class, Fingerprint)>,
    /// How many chunks are nowhere.
    pub(crate) lost_count: u64,
}

/// Which chunks stay in which container, in the order of the containers' numbers.
pub(crate) struct Kept<'a> {
    iter: Iter<'a, PLACED_LEN>,
    next: Option<(u32, [u8; NEED_LEN])>,
}

impl Places {
    /// Begins to go through what stays.
    ///
    /// # Errors
    ///
    /// `Media`, of a temporary file.
    pub(crate) fn kept(&self) -> Result<Kept<'_>> {
        let mut iter = self.kept.iter()?;
        let next = iter.next()?.map(|record| unplace(&record));
        Ok(Kept { iter, next })
    }
}

impl Kept<'_> {
    /// The chunks that stay in the container of number `container`. Numbers must rise.
    ///
    /// # Errors
    ///
    /// As [`Places::kept`].
    pub(crate) fn of(&mut self, container: u32) -> Result<KeptChunks> {
        let mut kept = KeptChunks::new();
        while let Some((number, need)) = self.next
            && number <= container
        {
            if number == container {
                let need = Need::decode(&need);
                kept.insert(need.fingerprint, need);
            }
            self.next = self.iter.next()?.map(|record| unplace(&record));
        }
        Ok(kept)
    }

    /// Goes to the end, so that all that was read is known to be what was written.
    ///
    /// # Errors
    ///
    /// As [`Places::kept`].
    pub(crate) fn end(mut self) -> Result<()> {
        while self.iter.next()?.is_some() {}
        Ok(())
    }
}
