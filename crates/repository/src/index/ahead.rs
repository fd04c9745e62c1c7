//! Tables of contents that are read ahead, several requests at a time.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::Result;

use super::chunk_index::Index;
use super::container_toc::ContainerToc;
use super::toc_batch::{Batch, FetchedToc, fetch, is_far};
use crate::crypto::HEADER_LEN;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::ContainerRecord;

impl Index {
    /// Calls `accept` for each of `wanted` in order, with the table of contents of its container if
    /// it has one. Tables of contents are read in batches, several requests at a time.
    ///
    /// # Errors
    ///
    /// Returns any error of `accept`. The result of a container is that of
    /// [`load_toc`](super::load_toc).
    pub fn each_toc<T>(
        &self,
        wanted: impl IntoIterator<Item = (T, Option<ContainerRecord>)>,
        mut accept: impl FnMut(T, Option<Result<Arc<ContainerToc>>>) -> Result<()>,
    ) -> Result<()> {
        /// Maximum number of items that wait for a batch.
        const WAITING_MAX: usize = 4096;
        let storage = &**self.repository.storage();
        let mut waiting: Vec<(T, Option<Arc<ContainerToc>>, bool)> = Vec::new();
        let mut batch = Batch::default();
        for (item, container) in wanted {
            let known = container.and_then(|container| self.known_toc(&container));
            let is_open = container.is_some() && known.is_none();
            if let Some(container) = container.filter(|_| is_open) {
                batch.push(storage, container);
            }
            waiting.push((item, known, is_open));
            if batch.is_full(storage) || waiting.len() >= WAITING_MAX {
                self.read_batch(std::mem::take(&mut batch), &mut waiting, &mut accept)?;
            }
        }
        self.read_batch(batch, &mut waiting, &mut accept)
    }

    /// Reads a batch, and calls `accept` for each of the `waiting` items.
    fn read_batch<T>(
        &self,
        batch: Batch,
        waiting: &mut Vec<(T, Option<Arc<ContainerToc>>, bool)>,
        accept: &mut impl FnMut(T, Option<Result<Arc<ContainerToc>>>) -> Result<()>,
    ) -> Result<()> {
        let fetched = fetch(&self.repository, &batch.containers);
        let is_kept = is_far(&**self.repository.storage());
        let mut read = batch.containers.iter().zip(fetched).map(|(container, fetched)| {
            let loaded = Arc::new(ContainerToc::of(*container, fetched?.toc));
            if is_kept {
                self.lock().tocs.insert(loaded.clone());
            }
            Ok(loaded)
        });
        for (item, known, is_open) in waiting.drain(..) {
            let loaded = if is_open { read.next() } else { known.map(Ok) };
            accept(item, loaded)?;
        }
        Ok(())
    }

    /// Returns `true` if the storage is worth reading ahead.
    pub(crate) fn reads_ahead(&self) -> bool {
        is_far(&**self.repository.storage())
    }

    /// Finds out where `chunks` are, by several requests at a time, so that lookups need none for
    /// them. Does nothing if the storage is near. What is not found is left to the lookups.
    pub fn look_up(&self, class: Class, mut chunks: &[Fingerprint]) {
        while self.reads_ahead() && !chunks.is_empty() {
            chunks = &chunks[self.prefetch(class, chunks)..];
        }
    }

    /// Reads the tables of contents to which hints lead for the first of `chunks`, several requests
    /// at a time, so that lookups of these chunks need none. Returns the number of these chunks,
    /// which is at least 1 unless there is none. A table of contents that cannot be read is left to
    /// the lookup that needs it.
    pub(crate) fn prefetch(&self, class: Class, chunks: &[Fingerprint]) -> usize {
        let storage = &**self.repository.storage();
        let mut batch = Batch::default();
        let mut seen: HashSet<PartName> = HashSet::new();
        let mut count = 0;
        for chunk in chunks {
            if batch.is_full(storage) {
                break;
            }
            count += 1;
            if self.lock().tocs.find(chunk).is_some() {
                continue;
            }
            let Ok(candidates) = self.candidates(&mut self.lock(), class, chunk) else { continue };
            for (_, container) in candidates {
                if seen.insert(container.name) && self.known_toc(&container).is_none() {
                    batch.push(storage, container);
                }
            }
        }
        let fetched = fetch(&self.repository, &batch.containers);
        for (container, fetched) in batch.containers.iter().zip(fetched) {
            if let Ok(fetched) = fetched {
                self.keep_toc(*container, fetched);
            }
        }
        count
    }

    /// Returns the table of contents of a container.
    ///
    /// # Errors
    ///
    /// Returns any error of [`load_toc`](super::load_toc).
    pub(crate) fn toc(&self, container: &ContainerRecord) -> Result<Arc<ContainerToc>> {
        match self.known_toc(container) {
            Some(loaded) => Ok(loaded),
            None => ContainerToc::at(&self.repository, *container).map(Arc::new),
        }
    }

    /// Returns the table of contents of a container, and keeps it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`load_toc`](super::load_toc).
    pub(super) fn load(&self, container: ContainerRecord) -> Result<Arc<ContainerToc>> {
        if let Some(loaded) = self.known_toc(&container) {
            return Ok(loaded);
        }
        // No lock is held, so that other threads need not wait for the storage. Two threads may
        // read the same table of contents, which does no harm.
        match fetch(&self.repository, &[container]).pop() {
            Some(fetched) => Ok(self.keep_toc(container, fetched?)),
            None => ContainerToc::at(&self.repository, container).map(Arc::new),
        }
    }

    fn known_toc(&self, container: &ContainerRecord) -> Option<Arc<ContainerToc>> {
        self.lock().tocs.get(container.name, container.class)
    }

    fn keep_toc(&self, container: ContainerRecord, fetched: FetchedToc) -> Arc<ContainerToc> {
        let loaded = ContainerToc::of(container, fetched.toc).with_header(&fetched.header);
        let loaded = Arc::new(loaded);
        let mut state = self.lock();
        state.tocs.insert(loaded.clone());
        if let Some(front) = fetched.front {
            state.fronts.insert(container.class, container.name, front);
        }
        loaded
    }

    /// Returns the header of a container whose table of contents was read ahead and is at hand.
    pub(crate) fn header(&self, class: Class, name: PartName) -> Option<[u8; HEADER_LEN]> {
        self.lock().tocs.header(name, class)
    }

    /// Returns the front of a container, which begins with its header and has all its regions, if it
    /// is at hand.
    pub(crate) fn front(&self, class: Class, name: PartName) -> Option<Bytes> {
        self.lock().fronts.get(class, name)
    }

    /// Drops the front of a container. Returns `true` if there was one.
    pub(crate) fn drop_front(&self, class: Class, name: PartName) -> bool {
        self.lock().fronts.remove(class, name)
    }
}
