//! The regions in which delta chunks stay: the references of these chunks, and the choice of delta
//! chunks that are stored as full chunks instead.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use cutpoint_storage::Result;

use super::container::{Container, RegionName, staying};
use super::live_set::{LiveChunk, LiveSet};
use super::placement::Placement;
use super::record::{PLACED_LEN, encode_placed};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::ObjectName;
use crate::format::toc::{ChunkRecord, Form};
use crate::index::Index;

/// Maximum number of pinned chunks whose containers are compared, which takes 40 MB. These
/// containers have only chunks that delta chunks refer to.
const PINNED_MAX: usize = 500_000;
/// Maximum number of regions with delta chunks that refer to such chunks, which takes about as much
/// again.
const REGIONS_MAX: usize = 250_000;

/// The references of the delta chunks that stay.
pub(super) struct References {
    pub(super) live_set: LiveSet,
    /// Delta chunks that stay in regions which are inlined.
    pub(super) inlined: HashSet<[u8; PLACED_LEN]>,
    pub(super) inlined_bytes: u64,
}

/// The delta chunks that are to be stored as full chunks.
#[derive(Debug, Default)]
pub(super) struct Inlining {
    /// Regions whose delta chunks should be stored again as full chunks.
    pub(super) inlined: HashSet<RegionName>,
    /// Total size of the containers that had stayed only for inlined delta chunks, in bytes.
    pub(super) released_bytes: u64,
}

/// Reads the regions in which delta chunks stay.
pub(super) struct DeltaRegions<'a> {
    pub(super) index: &'a Index,
    /// The folder for temporary files.
    pub(super) folder: Option<&'a Path>,
    /// Returns an error if the operation was cancelled.
    pub(super) stop_if_cancelled: &'a dyn Fn() -> Result<()>,
}

impl DeltaRegions<'_> {
    /// Calls `accept` with each region in which delta chunks stay, and with these delta chunks.
    fn each(
        &self,
        placement: &Placement,
        mut accept: impl FnMut(u32, RegionName, &[Fingerprint], &[&ChunkRecord]) -> Result<()>,
    ) -> Result<()> {
        let mut live = placement.live()?;
        let containers = (0..).zip(&placement.containers);
        let wanted = containers
            .filter(|(_, container)| container.live_count > 0 && container.record.has_delta_chunks);
        let wanted =
            wanted.map(|(number, container)| ((number, container.name()), Some(container.record)));
        self.index.each_toc(wanted, |(number, (class, part)), toc| {
            (self.stop_if_cancelled)()?;
            // An unreadable table of contents is an error: if it were skipped, delta chunks that
            // can still be repaired could lack their references.
            let Some(toc) = toc.transpose().map_err(|error| {
                let known = "the references of its delta chunks are unknown, so nothing is deleted";
                error.of(format!("{}: {known}", ObjectName::Container(class, part)))
            })?
            else {
                return Ok(());
            };
            let mut delta_chunks = staying(&toc.toc, &live.of(number)?);
            delta_chunks.retain(|chunk| chunk.form == Form::Delta);
            for of_region in delta_chunks.chunk_by(|one, other| one.region == other.region) {
                let region = of_region[0].region;
                let references = &toc.toc.regions[usize::from(region)].references;
                accept(number, (class, part, region), references, of_region)?;
            }
            Ok(())
        })?;
        live.end()
    }

    /// Returns the references of all delta chunks that stay, except for those in `inlined` regions,
    /// and the delta chunks in these regions.
    pub(super) fn references(
        &self,
        placement: &Placement,
        inlined: &HashSet<RegionName>,
    ) -> Result<References> {
        let live_set = LiveSet::new(self.folder);
        let mut found = References { live_set, inlined: HashSet::new(), inlined_bytes: 0 };
        self.each(placement, |number, region, references, delta_chunks| {
            let class = region.0;
            if !inlined.contains(&region) {
                return references
                    .iter()
                    .try_for_each(|reference| found.live_set.push_reference(class, reference));
            }
            for chunk in delta_chunks {
                let fingerprint = chunk.fingerprint;
                let live = LiveChunk { class, fingerprint, is_full: false, is_reached: true };
                found.inlined.insert(encode_placed(number, &live.encode()));
                found.inlined_bytes += u64::from(chunk.chunk_len);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Chooses the regions whose delta chunks should be stored again as full chunks: some container
    /// stays only for these delta chunks, and takes more than they would.
    pub(super) fn choose_inlining(
        &self,
        placement: &Placement,
        bytes_max: u64,
    ) -> Result<Inlining> {
        let mut chosen = Inlining::default();
        let is_pinned = |container: &Container| {
            container.live_count > 0 && container.pinned_count == container.live_count
        };
        if placement.missing_count > 0 || bytes_max == 0 {
            return Ok(chosen);
        }
        let mut pinned: HashMap<(Class, Fingerprint), u32> = HashMap::new();
        let mut live = placement.live()?;
        for (number, container) in (0..).zip(&placement.containers) {
            if is_pinned(container) && pinned.len() < PINNED_MAX {
                let chunks = live.of(number)?.into_keys();
                pinned.extend(chunks.map(|chunk| ((container.record.class, chunk), number)));
            }
        }
        live.end()?;
        if pinned.is_empty() {
            return Ok(chosen);
        }
        let mut pinning: HashMap<u32, BTreeSet<usize>> = HashMap::new();
        // Containers of which not all referring regions are known.
        let mut uncounted: HashSet<u32> = HashSet::new();
        let mut regions: Vec<(RegionName, u64)> = Vec::new();
        self.each(placement, |_, region, references, delta_chunks| {
            let pins = references.iter().filter_map(|chunk| pinned.get(&(region.0, *chunk)));
            let pins: BTreeSet<u32> = pins.copied().collect();
            if regions.len() >= REGIONS_MAX {
                uncounted.extend(pins);
            } else if !pins.is_empty() {
                pins.iter().for_each(|container| {
                    pinning.entry(*container).or_default().insert(regions.len());
                });
                let len = delta_chunks.iter().map(|chunk| u64::from(chunk.chunk_len)).sum();
                regions.push((region, len));
            }
            Ok(())
        })?;
        let mut inlined_bytes = 0;
        for (number, container) in (0..).zip(&placement.containers) {
            if uncounted.contains(&number) {
                continue;
            }
            let Some(pinning) = pinning.get(&number) else { continue };
            let left = pinning.iter().map(|index| regions[*index]);
            let left: Vec<_> =
                left.filter(|(region, _)| !chosen.inlined.contains(region)).collect();
            // Uncompressed sizes, so that inlining is worthwhile in any case.
            let cost: u64 = left.iter().map(|(_, len)| len).sum();
            if cost < u64::from(container.record.stored_len) && inlined_bytes + cost <= bytes_max {
                inlined_bytes += cost;
                chosen.released_bytes += u64::from(container.record.stored_len);
                chosen.inlined.extend(left.into_iter().map(|(region, _)| region));
            }
        }
        Ok(chosen)
    }
}
