//! The stored chunks to which delta chunks may refer (rules W2, C1, C3).

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use cutpoint_storage::Result;

use crate::crypto::Keys;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::index::{ContainerToc, Index, Location, Scope};
use crate::read::{ChunkBytes, Reader};
use crate::repo::repository::Repository;
use crate::rules;
use crate::write::recent::{Extents, RecentChunks};

/// The chunks to which the delta chunks of one writer may refer: those of other writers, and those
/// of the writer itself that it has in memory. In the storage, chunks of the writer itself do not
/// count, because the time at which they become readable depends on timing.
#[derive(Debug)]
pub(super) struct References<'a> {
    reader: &'a Reader,
    /// The index of the writer, which determines what may be referred to.
    index: &'a Index,
    own: TicketId,
    recent: Option<RefCell<RecentChunks>>,
}

impl<'a> References<'a> {
    /// Creates the set of the chunks that `index` allows to the writer of `own`. They are read by
    /// `reader`.
    pub(super) fn new(reader: &'a Reader, index: &'a Index, own: TicketId) -> References<'a> {
        References { reader, index, own, recent: None }
    }

    /// Adds the chunks of the writer itself that `recent` has.
    pub(super) fn with_recent(self, recent: RecentChunks) -> References<'a> {
        References { recent: Some(RefCell::new(recent)), ..self }
    }

    /// Returns the chunks of the writer itself, if they may be referred to.
    pub(super) fn recent(&self) -> Option<&RefCell<RecentChunks>> {
        self.recent.as_ref()
    }

    pub(super) fn reader(&self) -> &'a Reader {
        self.reader
    }

    pub(super) fn repository(&self) -> &'a Repository {
        self.reader.repository()
    }

    pub(super) fn keys(&self) -> &'a Keys {
        self.repository().keys()
    }

    pub(super) fn index(&self) -> &'a Index {
        self.index
    }

    /// Returns the ticket of the writer.
    pub(super) fn own(&self) -> TicketId {
        self.own
    }

    /// Calls `accepts` for the locations of a chunk until it accepts one. Locations that cannot be
    /// read are skipped.
    ///
    /// # Errors
    ///
    /// Returns any error of `accepts` or of the index that is no loss.
    pub(super) fn find(
        &self,
        fingerprint: &Fingerprint,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        self.index.find_where(Class::Data, fingerprint, Scope::Write, |location| {
            if location.container.name.ticket == self.own {
                return Ok(false);
            }
            match accepts(location) {
                Err(error) if error.is_loss() => Ok(false),
                accepted => accepted,
            }
        })
    }

    /// Returns the first location of a chunk in a fixed order.
    pub(super) fn locate(&self, fingerprint: &Fingerprint) -> Result<Option<Location>> {
        let order = |it: &Location| (!it.is_full(), it.container.name, it.number);
        let mut first: Option<Location> = None;
        self.find(fingerprint, |location| {
            if first.as_ref().is_none_or(|first| order(location) < order(first)) {
                first = Some(location.clone());
            }
            Ok(false)
        })?;
        Ok(first)
    }

    /// Returns a container that may be referred to, if it can be read.
    pub(super) fn container(&self, name: PartName) -> Result<Option<Arc<ContainerToc>>> {
        match self.index.container(Class::Data, name) {
            Err(error) if error.is_loss() => Ok(None),
            loaded => loaded,
        }
    }

    /// Returns `true` if comparisons with chunks of this writer are worth their work.
    pub(super) fn compares_with_recent(&self) -> bool {
        self.recent.as_ref().is_some_and(|recent| recent.borrow().is_worthwhile())
    }

    /// Returns `true` if a chunk of this writer is in memory.
    pub(super) fn has_recent(&self, fingerprint: &Fingerprint) -> bool {
        self.recent.as_ref().is_some_and(|recent| recent.borrow().contains(fingerprint))
    }

    /// Returns the extents of a delta chunk of this writer that is in memory.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RecentChunks::extents`].
    pub(super) fn recent_extents(&self, fingerprint: &Fingerprint) -> Result<Option<Extents>> {
        let Some(recent) = &self.recent else { return Ok(None) };
        recent.borrow_mut().extents(fingerprint)
    }

    /// Returns the stored bytes of a full chunk of this writer that is in memory.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RecentChunks::full_chunk`].
    pub(super) fn recent_full_chunk(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Option<ChunkBytes>> {
        let Some(recent) = &self.recent else { return Ok(None) };
        recent.borrow_mut().full_chunk(fingerprint)
    }

    /// Returns the stored bytes of a full chunk and its container, if the chunk may be referred to
    /// and can be read. A chunk of this writer has no container yet.
    pub(super) fn full_chunk(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(ChunkBytes, Option<PartName>)>> {
        if let Some(bytes) = self.recent_full_chunk(fingerprint)? {
            return Ok(Some((bytes, None)));
        }
        let mut bytes = None;
        let found = self.find(fingerprint, |location| {
            if rules::may_refer_to(location.is_full()) {
                bytes = Some(self.reader.unverified(Class::Data, location)?);
            }
            Ok(bytes.is_some())
        })?;
        Ok(bytes.map(|bytes| (bytes, found.map(|location| location.container.name))))
    }

    /// Returns the bytes of a chunk, not verified, and the range of the given `len` bytes from
    /// `offset` on. Returns `None` if no location of the chunk is readable that `accepts` accepts.
    pub(super) fn piece(
        &self,
        fingerprint: &Fingerprint,
        (offset, len): (u64, u64),
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<(ChunkBytes, Range<usize>)>> {
        let mut found = None;
        self.find(fingerprint, |location| {
            if !accepts(location)? {
                return Ok(false);
            }
            let chunk = self.reader.unverified(Class::Data, location)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let range = start..start.saturating_add(len);
            let is_in = chunk.get(range.clone()).is_some();
            found = is_in.then_some((chunk, range));
            Ok(is_in)
        })?;
        Ok(found)
    }
}
