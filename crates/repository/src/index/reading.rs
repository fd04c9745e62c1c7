//! Reads the segments that an index lacks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, ObjectKind, Result};

use super::runs::{Run, RunBuilder, RunStore};
use super::segments::Segments;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::Segment;
use crate::repo::repository::Repository;
use crate::util::tolerance::Tolerance;

/// Reads segments, until every segment that counts is in a run or cannot be read.
///
/// A merged segment need not be read if the segments that it covers are available. If only some of
/// them are, the others are read instead while they exist, and while they are together shorter than
/// the merged one.
pub(super) struct Reading<'a> {
    repository: &'a Repository,
    segments: &'a Segments,
    builder: RunBuilder,
    /// Segments that count and cannot be read.
    unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Covered segments that cannot be read.
    gone: HashSet<PartName>,
    tolerance: Tolerance,
}

/// The segments that are to be read.
pub(super) struct OpenSegments {
    open: BTreeSet<PartName>,
    /// The segments that are in runs, or all of whose hints are.
    available: HashSet<PartName>,
}

impl OpenSegments {
    /// Returns `true` if there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// The results of reading segments.
pub(super) struct ReadSegments {
    pub(super) runs: Vec<Arc<Run>>,
    /// Number of new runs that were damaged and replaced.
    pub(super) damaged_run_count: u32,
    pub(super) unreadable: BTreeMap<ObjectName, Arc<Error>>,
    pub(super) tolerance: Tolerance,
}

impl<'a> Reading<'a> {
    /// Begins to read `segments`, and to keep runs in `store`.
    pub(super) fn new(
        repository: &'a Repository,
        segments: &'a Segments,
        store: RunStore,
    ) -> Reading<'a> {
        Reading {
            repository,
            segments,
            builder: RunBuilder::new(store),
            unreadable: BTreeMap::new(),
            gone: HashSet::new(),
            tolerance: Tolerance::default(),
        }
    }

    /// Returns the segments among `wanted` that are to be read, if those in `available` are in runs.
    pub(super) fn open<'w>(
        &self,
        wanted: impl Iterator<Item = &'w PartName>,
        mut available: HashSet<PartName>,
    ) -> OpenSegments {
        available.extend(self.builder.covers());
        self.segments.complete(&mut available);
        let is_open = |name: &PartName| {
            !available.contains(name) && !self.unreadable.contains_key(&ObjectName::Segment(*name))
        };
        OpenSegments { open: wanted.copied().filter(is_open).collect(), available }
    }

    /// Reads segments. Afterwards, there may be more to read.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage fails for more segments than single bad sectors
    /// explain.
    pub(super) fn read(&mut self, segments: &OpenSegments) -> Result<()> {
        let mut chosen = self.choose(segments)?;
        chosen.retain(|(object, _)| {
            let ObjectName::Segment(name) = object else { return false };
            let embedded = self.segments.embedded(name);
            if let Some(segment) = embedded {
                self.builder.add(*name, segment);
            }
            embedded.is_none()
        });
        let Reading { repository, builder, unreadable, gone, tolerance, .. } = self;
        repository.get_many(&chosen, |object, bytes| {
            let ObjectName::Segment(name) = object else { return Ok(()) };
            match bytes.and_then(|bytes| repository.open_bytes(object, &bytes, Segment::decode)) {
                Ok((_, segment)) => builder.add(name, &segment),
                Err(error) => {
                    let error = tolerance.of_one(error)?;
                    if segments.open.contains(&name) {
                        unreadable.insert(object, Arc::new(error));
                    } else {
                        gone.insert(name);
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the segments to read for those that are open, with their lengths, which a listing gives
    /// for several of them. The length of one that no listing shows is the maximum of its kind.
    fn choose(&self, segments: &OpenSegments) -> Result<Vec<(ObjectName, u64)>> {
        let OpenSegments { open, available } = segments;
        let origins = self.segments.origins();
        let mut lens: HashMap<ObjectName, u64> = HashMap::new();
        let is_object = |segment: &&PartName| self.segments.embedded(segment).is_none();
        let objects = || open.iter().filter(is_object);
        if objects().count() > 1 || objects().any(|segment| origins.contains_key(segment)) {
            lens.extend(self.repository.list_objects(ObjectKind::Segment)?);
        }
        let mut chosen = BTreeMap::new();
        for segment in open {
            let name = ObjectName::Segment(*segment);
            let len = lens.get(&name).copied().unwrap_or(ObjectKind::Segment.len_max());
            let parts = origins.get(segment).and_then(|covered| {
                let parts = covered.iter().filter(|part| !available.contains(part));
                let part = |part: &PartName| {
                    let name = ObjectName::Segment(*part);
                    if self.segments.embedded(part).is_some() {
                        return Some((name, 0));
                    }
                    let len = lens.get(&name).filter(|_| !self.gone.contains(part))?;
                    Some((name, *len))
                };
                parts.map(part).collect::<Option<Vec<_>>>()
            });
            match parts {
                Some(parts) if parts.iter().map(|(_, len)| len).sum::<u64>() < len => {
                    chosen.extend(parts);
                }
                _ => drop(chosen.insert(name, len)),
            }
        }
        Ok(chosen.into_iter().collect())
    }

    /// Returns what was read.
    pub(super) fn finish(self) -> ReadSegments {
        let Reading { builder, unreadable, tolerance, .. } = self;
        let (runs, damaged_run_count) = builder.finish();
        ReadSegments { runs, damaged_run_count, unreadable, tolerance }
    }
}
