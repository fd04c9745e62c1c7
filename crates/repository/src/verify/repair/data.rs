//! Repair of data: rebuilds damaged containers from their parity, and creates missing parity.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};
use zstd::bulk::Decompressor;

use super::attempts::{persist, restart_if_ended};
use crate::crypto::{Opener, PartKind, Trailer, object_is_intact};
use crate::format::commit::{Damage, Outcome};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::region::decode_region;
use crate::format::ticket::Purpose;
use crate::format::toc::{ChunkRecord, Form, Toc};
use crate::index::{Index, Scope};
use crate::parity::{self, ParityListing};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::tolerance::Tolerance;
use crate::verify::check::{
    CheckMonitor, CheckOptions, MissingData, Portion, find_missing, record,
};
use crate::write::{CommitResult, Inline, Verify, Writer};

/// The options of a repair of data.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataOptions {
    /// Set to write nothing.
    pub dry_run: bool,
    /// The portion of the containers that is read to look for damage; `None` to use only damage
    /// that checks have recorded, and damage that shows without reading data.
    pub read_data: Option<Portion>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
}

/// The results of a repair of data; in a dry run, the expected ones.
#[derive(Debug, Default)]
pub struct DataRepair {
    /// The commit that publishes the chunks stored again; `None` if there were none.
    pub commit: Option<TicketId>,
    /// Containers that were rebuilt, each with the number of chunks that were stored again (in a
    /// dry run: would be).
    pub rebuilt: Vec<(ObjectName, u64)>,
    /// The errors of damaged containers that have no parity, or not enough of it.
    pub failed: Vec<Error>,
    /// Number of containers for which parity was created (in a dry run: would be).
    pub protected_count: u64,
    /// The size of the created parity in bytes; 0 in a dry run.
    pub parity_bytes: u64,
}

/// Rebuilds damaged containers from their parity and stores those of their chunks again that exist
/// nowhere else. Also creates parity for containers that have none, if the settings ask for parity.
/// Damage is recorded first. Nothing is deleted, and no container is changed: the chunks go into
/// new ones.
///
/// # Errors
///
/// Returns any error of [`check`](crate::verify::check::check), [`Writer::begin`] and [`Inline`].
pub fn repair_data(
    repository: &Arc<Repository>,
    options: &DataOptions,
    monitor: &dyn CheckMonitor,
) -> Result<DataRepair> {
    let check_options = CheckOptions {
        read_data: options.read_data,
        threads: options.threads,
        ..CheckOptions::default()
    };
    let (report, missing) = find_missing(repository, &check_options, monitor)?;
    let mut damages = report.damages;
    damages.extend(refused(repository, &missing)?);
    if options.dry_run {
        let view = View::list(repository)?;
        let damages = view.damaged().into_iter().chain(damages).collect();
        let mut repair = DataRepairRun::new(repository, &view, damages, &missing, monitor)?;
        repair.rebuild_all(None)?;
        repair.protect_all(None)?;
        return Ok(repair.report);
    }
    record(repository, &damages, |_, _| {})?;
    persist("the repair of data", || {
        let writer = Writer::begin(repository.clone(), Purpose::Other)?;
        let (ticket, view) = (writer.ticket(), writer.view().clone());
        let mut repair = DataRepairRun::new(repository, &view, view.damaged(), &missing, monitor)?;
        let mut inline = Inline::with_index(writer, repair.index.clone(), Verify::All)?;
        let stored = repair
            .rebuild_all(Some(&mut inline))
            .and_then(|()| repair.protect_all(Some(&mut inline)))
            .and_then(|()| inline.publish());
        if let Err(error) = stored {
            // The objects that were put are correct, and the next attempt finds them.
            return restart_if_ended(inline.writer().fail(error));
        }
        if repair.report.rebuilt.is_empty() {
            inline.writer().void(Vec::new())?;
            return Ok(Some(repair.report));
        }
        repair.report.commit = Some(ticket);
        let committed = inline.commit(Outcome::Rescue)?;
        Ok((committed == CommitResult::Done).then_some(repair.report))
    })
}

/// Returns the chunks of containers that the storage refuses, and that can be rebuilt from parity.
/// A bad sector makes the file that contains it unreadable every time.
fn refused(repository: &Arc<Repository>, missing: &MissingData) -> Result<Vec<Damage>> {
    let mut damages = Vec::new();
    if missing.refused_containers.is_empty() {
        return Ok(damages);
    }
    let listed = parity::list(repository)?;
    for &(class, container) in &missing.refused_containers {
        let rebuilt = parity::rebuild_container(repository, &listed, class, container)
            .and_then(|bytes| RebuiltContainer::open(repository, class, container, bytes));
        // The check has reported the container. The cause may be the storage, which may return it
        // another time.
        let Ok(rebuilt) = rebuilt else { continue };
        damages.extend(rebuilt.toc.chunks.iter().map(|chunk| Damage {
            class,
            container,
            fingerprint: chunk.fingerprint,
        }));
    }
    Ok(damages)
}

/// The state of a repair of data.
struct DataRepairRun<'a> {
    repository: &'a Repository,
    monitor: &'a dyn CheckMonitor,
    missing: &'a MissingData,
    index: Arc<Index>,
    containers: BTreeSet<(Class, PartName)>,
    parity: ParityListing,
    /// The chunks that cannot be read from a container, by container.
    damaged: BTreeMap<(Class, PartName), HashSet<Fingerprint>>,
    /// The chunks that were stored again, or would be.
    stored: HashSet<(Class, Fingerprint)>,
    tolerance: Tolerance,
    report: DataRepair,
}

impl<'a> DataRepairRun<'a> {
    fn new(
        repository: &'a Arc<Repository>,
        view: &View,
        damages: HashSet<Damage>,
        missing: &'a MissingData,
        monitor: &'a dyn CheckMonitor,
    ) -> Result<DataRepairRun<'a>> {
        let index = Arc::new(Index::open(repository.clone(), view)?);
        let condemned = view.condemned();
        let records = index.containers().into_iter().map(|record| (record.class, record.name));
        let containers: BTreeSet<_> =
            records.filter(|container| !condemned.contains(container)).collect();
        let mut damaged: BTreeMap<_, HashSet<Fingerprint>> = BTreeMap::new();
        for damage in damages {
            let container = (damage.class, damage.container);
            // The record of a chunk that was found nowhere names no container.
            if containers.contains(&container) {
                damaged.entry(container).or_default().insert(damage.fingerprint);
            }
        }
        Ok(DataRepairRun {
            parity: parity::list(repository)?,
            repository,
            monitor,
            missing,
            index,
            containers,
            damaged,
            stored: HashSet::new(),
            tolerance: Tolerance::default(),
            report: DataRepair::default(),
        })
    }

    fn stop_if_cancelled(&self) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, "repair", "interrupted"));
        }
        Ok(())
    }

    /// Returns `true` if a chunk has no undamaged place.
    fn is_nowhere_else(&self, class: Class, fingerprint: &Fingerprint) -> Result<bool> {
        if self.stored.contains(&(class, *fingerprint)) {
            return Ok(false);
        }
        let place = self.index.find_where(class, fingerprint, Scope::Write, |location| {
            let damaged = self.damaged.get(&(class, location.container.name));
            Ok(!damaged.is_some_and(|damaged| damaged.contains(fingerprint)))
        })?;
        Ok(place.is_none())
    }

    /// Rebuilds each container with a chunk that exists nowhere else, and stores such chunks again.
    fn rebuild_all(&mut self, mut inline: Option<&mut Inline>) -> Result<()> {
        let damaged: Vec<_> = self.damaged.keys().copied().collect();
        self.monitor.expected(damaged.len() as u64, 0);
        for (class, part) in damaged {
            self.stop_if_cancelled()?;
            self.monitor.progress(1, 0);
            let chunks = &self.damaged[&(class, part)];
            let mut is_needed = false;
            for fingerprint in chunks {
                is_needed = is_needed || self.is_nowhere_else(class, fingerprint)?;
            }
            if !is_needed {
                continue;
            }
            let rebuilt = parity::rebuild_container(self.repository, &self.parity, class, part)
                .and_then(|bytes| RebuiltContainer::open(self.repository, class, part, bytes));
            match rebuilt {
                Ok(rebuilt) => self.store_again(rebuilt, inline.as_deref_mut())?,
                // A container that no listed snapshot misses may be given up.
                Err(error) => {
                    let error = self.tolerance.of_one(error)?;
                    let is_lost =
                        |chunk: &Fingerprint| self.missing.needed.contains(&(class, *chunk));
                    if self.damaged[&(class, part)].iter().any(is_lost) {
                        self.report.failed.push(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the chunks of a rebuilt container that exist nowhere else.
    ///
    /// # Errors
    ///
    /// Returns an error if a chunk cannot be stored. Chunks that cannot be read are added to the
    /// failures.
    fn store_again(
        &mut self,
        mut rebuilt: RebuiltContainer<'_>,
        mut inline: Option<&mut Inline>,
    ) -> Result<()> {
        let class = rebuilt.class;
        let mut count = 0;
        for number in 0..rebuilt.toc.regions.len() {
            let region = match rebuilt.region(number) {
                Ok(region) => region,
                Err(error) => {
                    self.report.failed.push(error);
                    break;
                }
            };
            for chunk in rebuilt.chunks_in(number) {
                if !self.is_nowhere_else(class, &chunk.fingerprint)? {
                    continue;
                }
                let start = chunk.offset as usize;
                let payload = region.get(start..start + chunk.payload_len as usize);
                let payload = payload.unwrap_or_default();
                if self.repository.keys().fingerprint(class, payload) != chunk.fingerprint {
                    let message = format!("does not contain chunk {}", chunk.fingerprint);
                    self.report.failed.push(Error::corrupt(rebuilt.name, message));
                    continue;
                }
                if let Some(inline) = &mut inline {
                    inline.store(class, chunk.fingerprint, payload)?;
                }
                self.stored.insert((class, chunk.fingerprint));
                count += 1;
            }
        }
        // A hint may lead to a container that never had the chunk.
        if count > 0 {
            self.report.rebuilt.push((rebuilt.name, count));
        }
        Ok(())
    }

    /// Creates parity for each container that has none, if the settings ask for parity.
    fn protect_all(&mut self, mut inline: Option<&mut Inline>) -> Result<()> {
        let percent = self.repository.config().parity_percent;
        if percent == 0 {
            return Ok(());
        }
        let mut unprotected = self.containers.clone();
        unprotected.retain(|container| {
            !self.missing.protected.contains(container) && !self.damaged.contains_key(container)
        });
        self.monitor.expected(unprotected.len() as u64, 0);
        for (class, part) in unprotected {
            self.stop_if_cancelled()?;
            self.monitor.progress(1, 0);
            let name = ObjectName::Container(class, part);
            let bytes = match self.repository.storage().get(&name.to_string()) {
                Ok(bytes) if object_is_intact(&bytes) => bytes,
                // The container is damaged; a check reports it.
                Ok(_) => continue,
                // A sweep may have deleted the container; otherwise, a check reports it.
                Err(error) if error.kind() == Kind::Missing => continue,
                Err(error) => {
                    self.report.failed.push(self.tolerance.of_one(error)?);
                    continue;
                }
            };
            self.report.protected_count += 1;
            if let Some(inline) = &mut inline {
                let writer = inline.writer();
                writer.renew()?;
                let ticket = writer.ticket();
                self.report.parity_bytes +=
                    parity::protect(self.repository, ticket, class, part, &bytes, percent)?;
            }
        }
        Ok(())
    }
}

/// A rebuilt container. It is decoded region by region, because the total decoded size is not
/// limited.
struct RebuiltContainer<'a> {
    class: Class,
    name: ObjectName,
    bytes: Vec<u8>,
    opener: Opener,
    toc: Toc,
    decompressor: Decompressor<'a>,
}

impl RebuiltContainer<'_> {
    fn open(
        repository: &Repository,
        class: Class,
        part: PartName,
        bytes: Vec<u8>,
    ) -> Result<RebuiltContainer<'static>> {
        let name = ObjectName::Container(class, part);
        let opener = Opener::new(repository.keys(), name, &bytes)?;
        let trailer = Trailer::decode(&name, &bytes, bytes.len() as u64)?;
        let mut rebuilt = RebuiltContainer {
            class,
            name,
            bytes,
            opener,
            toc: Toc::default(),
            decompressor: Decompressor::new().map_err(|error| Error::invalid("zstd", error))?,
        };
        let toc = rebuilt.part(PartKind::Toc, trailer.offset, trailer.length)?;
        rebuilt.toc = Toc::decode(&toc, trailer.offset).map_err(|error| error.of(name))?;
        Ok(rebuilt)
    }

    fn part(&self, kind: PartKind, offset: u64, length: u32) -> Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = self.bytes.get(start..start.saturating_add(length as usize));
        let mut part =
            part.ok_or_else(|| Error::corrupt(self.name, "ends inside a part"))?.to_vec();
        self.opener.open(kind, &mut part).map(|()| part)
    }

    fn region(&mut self, number: usize) -> Result<Vec<u8>> {
        let region = &self.toc.regions[number];
        let kind = PartKind::Region(u32::try_from(number).unwrap_or(u32::MAX));
        let part = self.part(kind, u64::from(region.offset), region.stored_len)?;
        decode_region(&mut self.decompressor, region.codec, part, region.raw_len)
            .map_err(|error| error.of(self.name))
    }

    /// Returns the chunks of a region that are stored as full chunks.
    fn chunks_in(&self, number: usize) -> impl Iterator<Item = &ChunkRecord> {
        let chunks = &self.toc.chunks;
        let begin = chunks.partition_point(|chunk| usize::from(chunk.region) < number);
        let end = chunks.partition_point(|chunk| usize::from(chunk.region) <= number);
        chunks[begin..end].iter().filter(|chunk| chunk.form == Form::Full)
    }
}
