//! The second part of regrouping: the chunks that the newest snapshots do not need, with similar
//! chunks side by side or as delta chunks of one of them.

use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::bases::BASES_MAX;
use super::mover::Mover;
use crate::format::fingerprint::Class;
use crate::gc::locate::{LiveChunks, staying_numbers};
use crate::gc::monitor::Phase;
use crate::gc::prune::selection::Selection;
use crate::gc::prune::source::readable;
use crate::gc::prune::survey::Survey;
use crate::index::{ContainerToc, Location};
use crate::util::extsort::{ExternalSort, SortedRecords};

/// Memory of the sorter of the order, in bytes.
const SORTER_BYTES: usize = 24 * 1024 * 1024;
/// Number of chunks in cached tables of contents above which the cache is emptied.
const LOADED_CHUNKS_MAX: usize = 400_000;
/// Length of a sort key in bytes: class, form, group, container, number, and the flag for a chunk
/// that must be stored as a full chunk.
const POSITION_LEN: usize = 1 + 1 + 8 + 4 + 4 + 1;

/// Recently used tables of contents.
#[derive(Default)]
struct RecentTocs {
    loaded: HashMap<u32, Arc<ContainerToc>>,
    chunk_count: usize,
}

impl RecentTocs {
    /// Returns the table of contents of the container of this number, if it can be read.
    fn load(
        &mut self,
        mover: &Mover<'_>,
        survey: &Survey,
        number: u32,
    ) -> Result<Option<Arc<ContainerToc>>> {
        if let Some(loaded) = self.loaded.get(&number) {
            return Ok(Some(loaded.clone()));
        }
        let record = survey.placement.containers[number as usize].record;
        let Some(loaded) = readable(mover.sources.load(record))? else { return Ok(None) };
        let loaded = Arc::new(loaded);
        if self.chunk_count > LOADED_CHUNKS_MAX {
            *self = RecentTocs::default();
        }
        self.chunk_count += loaded.toc.chunks.len();
        self.loaded.insert(number, loaded.clone());
        Ok(Some(loaded))
    }
}

/// Stores the rest of what stays, with similar chunks side by side.
pub(super) fn move_rest(
    mover: &mut Mover<'_>,
    survey: &Survey,
    selection: &Selection,
) -> Result<()> {
    let mut tocs = RecentTocs::default();
    let order = sort(mover, survey, selection, &mut tocs)?;
    let mut order = order.iter()?;
    while let Some(position) = order.next()? {
        mover.beat()?;
        let (number, chunk, must_be_full) = decode_position(&position);
        let Some(loaded) = tocs.load(mover, survey, number)? else { continue };
        let class = loaded.container.class;
        let location = Location::new(&loaded, chunk);
        let is_stored = mover.inline.has(class, &location.chunk().fingerprint, must_be_full)?;
        if !is_stored && (must_be_full || !mover.reencode(class, &location)?) {
            mover.store(class, &location)?;
        }
    }
    Ok(())
}

/// Returns the positions of the chunks that are not stored yet, in the order in which they are
/// stored.
fn sort(
    mover: &mut Mover<'_>,
    survey: &Survey,
    selection: &Selection,
    tocs: &mut RecentTocs,
) -> Result<SortedRecords<POSITION_LEN>> {
    let folder = mover.inline.writer().repository().temporary_folder();
    let mut order: ExternalSort<POSITION_LEN> = ExternalSort::new(folder.as_deref(), SORTER_BYTES);
    let mut live = survey.placement.live()?;
    let total = selection.rewritten.len() as u64;
    for (done, number) in (0..).zip(&selection.rewritten) {
        mover.monitor.progress(Phase::Compare, done, total);
        let live = live.of(*number)?;
        let Some(loaded) = tocs.load(mover, survey, *number)? else { continue };
        push_positions(mover, &loaded, *number, &live, &mut order)?;
    }
    live.end()?;
    Ok(order.finish())
}

/// Pushes the positions of the chunks of one container to `order`. Chunks that resemble each other
/// get the same group.
fn push_positions(
    mover: &mut Mover<'_>,
    loaded: &Arc<ContainerToc>,
    number: u32,
    live: &LiveChunks,
    order: &mut ExternalSort<POSITION_LEN>,
) -> Result<()> {
    let class = loaded.container.class;
    for chunk in staying_numbers(&loaded.toc, live) {
        mover.beat()?;
        let location = Location::new(loaded, chunk);
        let fingerprint = location.chunk().fingerprint;
        let must_be_full = live[&fingerprint].is_full;
        if mover.inline.has(class, &fingerprint, must_be_full)? {
            continue;
        }
        let mut group = u64::MAX;
        if location.is_full()
            && let Some(bytes) = readable(mover.sources.payload(class, &location))?
        {
            let found = mover.bases.find_or_add((class, fingerprint), &bytes, BASES_MAX);
            // A chunk that resembles no other stays beside its neighbours.
            group = found.map_or(mover.bases.full_chunks.len() as u64, u64::from);
        }
        order.push(encode_position(&location, group, number, must_be_full)?)?;
    }
    Ok(())
}

fn encode_position(
    location: &Location,
    group: u64,
    container: u32,
    must_be_full: bool,
) -> Result<[u8; POSITION_LEN]> {
    let chunk = u32::try_from(location.number)
        .map_err(|_| Error::corrupt("table of contents", "too many chunks"))?;
    let mut position = [0; POSITION_LEN];
    position[0] = u8::from(location.container.class == Class::Meta);
    position[1] = u8::from(!location.is_full());
    position[2..10].copy_from_slice(&group.to_be_bytes());
    position[10..14].copy_from_slice(&container.to_be_bytes());
    position[14..18].copy_from_slice(&chunk.to_be_bytes());
    position[18] = u8::from(must_be_full);
    Ok(position)
}

/// Returns the number of the container, the number of the chunk in it, and `true` if the chunk must
/// be stored as a full chunk.
fn decode_position(position: &[u8; POSITION_LEN]) -> (u32, usize, bool) {
    let number =
        |at: usize| position[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    (number(10), number(14) as usize, position[18] != 0)
}
