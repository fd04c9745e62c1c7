//! What composites need that stay, and whether they are worth it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::container::{Container, staying};
use super::need::{Need, Needs, SORTER_BYTES};
use super::{Lookup, PLACED_LEN, Places, placed, unplace};
use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::format::directory::{ChunkRecord, Form};
use crate::index::load_directory;
use crate::name::{ObjectName, PartName};
use crate::sorted::Sorter;

/// What containers stay for that have nothing but references is weighed where it is no more than so
/// many chunks: that takes 40 MB.
const WEIGHED_MAX: usize = 500_000;
/// And where composites of no more regions refer to them: that takes as much again, about.
const REGIONS_WEIGHED_MAX: usize = 250_000;

/// A region of a container.
pub(super) type Region = (Class, PartName, u16);

/// What composites need that stay.
pub(super) struct References {
    pub(super) needs: Needs,
    /// Composites that stay in regions which are dissolved.
    pub(super) dissolved: HashSet<[u8; PLACED_LEN]>,
    pub(super) dissolved_bytes: u64,
}

/// What had better be stored again as wholes.
#[derive(Debug, Default)]
pub(super) struct Weighed {
    /// The regions whose composites are.
    pub(super) dissolved: HashSet<Region>,
    /// The size of the containers that had stayed for them alone.
    pub(super) released_bytes: u64,
}

impl Places {
    /// The chunks of `records` do not stay where they are: they are stored again as wholes.
    pub(super) fn dissolve(
        &mut self,
        records: &HashSet<[u8; PLACED_LEN]>,
        folder: Option<&Path>,
    ) -> Result<()> {
        let mut left = Sorter::new(folder, SORTER_BYTES);
        let mut iter = self.kept.iter()?;
        while let Some(record) = iter.next()? {
            if records.contains(&record) {
                let (number, need) = unplace(&record);
                let Need { class, fingerprint, .. } = Need::decode(&need);
                self.containers[number as usize].kept_count -= 1;
                self.dissolved.push((class, fingerprint));
            } else {
                left.push(record)?;
            }
        }
        self.kept = left.finish();
        Ok(())
    }
}

impl Lookup<'_> {
    /// Calls `visit` with each region in which composites stay, and with these.
    fn each_region(
        &self,
        places: &Places,
        mut visit: impl FnMut(u32, Region, &[Fingerprint], &[&ChunkRecord]) -> Result<()>,
    ) -> Result<()> {
        let mut kept = places.kept()?;
        for (number, container) in (0..).zip(&places.containers) {
            if container.kept_count == 0 || !container.record.has_composites {
                continue;
            }
            (self.stop_if_cancelled)()?;
            let (class, part) = container.name();
            // Passed over, what can be made good of it would lack what it refers to.
            let directory =
                load_directory(self.repository, &container.record).map_err(|error| {
                    let known =
                        "it is not known to what its composites refer, and nothing is deleted";
                    error.of(format!("{}: {known}", ObjectName::Container(class, part)))
                })?;
            let mut composites = staying(&directory, &kept.of(number)?);
            composites.retain(|chunk| chunk.form == Form::Composite);
            for of_region in composites.chunk_by(|one, other| one.region == other.region) {
                let region = of_region[0].region;
                let references = &directory.regions[usize::from(region)].references;
                visit(number, (class, part, region), references, of_region)?;
            }
        }
        kept.end()
    }

    pub(super) fn references(
        &self,
        places: &Places,
        dissolved: &HashSet<Region>,
    ) -> Result<References> {
        let needs = Needs::new(self.folder);
        let mut found = References { needs, dissolved: HashSet::new(), dissolved_bytes: 0 };
        self.each_region(places, |number, region, references, composites| {
            let class = region.0;
            if !dissolved.contains(&region) {
                return references
                    .iter()
                    .try_for_each(|reference| found.needs.push_reference(class, reference));
            }
            for chunk in composites {
                let fingerprint = chunk.fingerprint;
                let need = Need { class, fingerprint, is_whole: false, is_reached: true };
                found.dissolved.insert(placed(number, &need.encode()));
                found.dissolved_bytes += u64::from(chunk.chunk_len);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The regions whose composites had better be stored again as wholes: what stays of some
    /// container stays for them alone, and it takes more than they would.
    pub(super) fn weigh(&self, places: &Places) -> Result<Weighed> {
        let mut weighed = Weighed::default();
        let is_pinned = |container: &Container| {
            container.kept_count > 0 && container.pinned_count == container.kept_count
        };
        if places.lost_count > 0 || self.dissolved_bytes_max == 0 {
            return Ok(weighed);
        }
        let mut pinned: HashMap<(Class, Fingerprint), u32> = HashMap::new();
        let mut kept = places.kept()?;
        for (number, container) in (0..).zip(&places.containers) {
            if is_pinned(container) && pinned.len() < WEIGHED_MAX {
                let chunks = kept.of(number)?.into_keys();
                pinned.extend(chunks.map(|chunk| ((container.record.class, chunk), number)));
            }
        }
        kept.end()?;
        if pinned.is_empty() {
            return Ok(weighed);
        }
        let mut pinning: HashMap<u32, BTreeSet<usize>> = HashMap::new();
        // Not all that refers to them is known.
        let mut uncounted: HashSet<u32> = HashSet::new();
        let mut regions: Vec<(Region, u64)> = Vec::new();
        self.each_region(places, |_, region, references, composites| {
            let pins = references.iter().filter_map(|chunk| pinned.get(&(region.0, *chunk)));
            let pins: BTreeSet<u32> = pins.copied().collect();
            if regions.len() >= REGIONS_WEIGHED_MAX {
                uncounted.extend(pins);
            } else if !pins.is_empty() {
                pins.iter().for_each(|container| {
                    pinning.entry(*container).or_default().insert(regions.len());
                });
                let len = composites.iter().map(|chunk| u64::from(chunk.chunk_len)).sum();
                regions.push((region, len));
            }
            Ok(())
        })?;
        let mut dissolved_bytes = 0;
        for (number, container) in (0..).zip(&places.containers) {
            if uncounted.contains(&number) {
                continue;
            }
            let Some(pinning) = pinning.get(&number) else { continue };
            let left = pinning.iter().map(|index| regions[*index]);
            let left: Vec<_> =
                left.filter(|(region, _)| !weighed.dissolved.contains(region)).collect();
            // As they are, not compressed: so it is worth it in any case.
            let cost: u64 = left.iter().map(|(_, len)| len).sum();
            if cost < u64::from(container.record.stored_len)
                && dissolved_bytes + cost <= self.dissolved_bytes_max
            {
                dissolved_bytes += cost;
                weighed.released_bytes += u64::from(container.record.stored_len);
                weighed.dissolved.extend(left.into_iter().map(|(region, _)| region));
            }
        }
        Ok(weighed)
    }
}
