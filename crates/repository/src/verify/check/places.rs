//! Places of chunks: what this check has found of them, and what earlier checks have recorded.

use std::collections::{HashMap, HashSet};

use cutpoint_storage::{Error, Result};

use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::index::Location;
use crate::read::Reader;

/// The findings and records about the places of chunks.
pub(super) struct PlaceFindings {
    /// Containers that are gone.
    pub(super) gone: HashSet<(Class, PartName)>,
    /// Places from which this check could not read the chunk.
    pub(super) unreadable: HashSet<Damage>,
    /// The containers that this check has read completely.
    pub(super) read: HashSet<(Class, PartName)>,
    /// Delta chunks that lack a full chunk.
    pub(super) unassembled: HashSet<Damage>,
    /// Full chunks that delta chunks lack, each with the reason.
    pub(super) lacking: HashMap<(Class, Fingerprint), Error>,
    /// Places that an earlier check has recorded as damaged.
    pub(super) recorded: HashSet<Damage>,
}

impl PlaceFindings {
    /// Returns `true` if this check has found nothing wrong with a place.
    pub(super) fn is_sound(&self, location: &Location) -> bool {
        let place = place(location);
        !self.gone.contains(&(place.class, place.container)) && !self.unreadable.contains(&place)
    }

    pub(super) fn is_recorded(&self, location: &Location) -> bool {
        self.recorded.contains(&place(location))
    }

    /// Reads a place with which nothing is known to be wrong, unless this check has read it
    /// already.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::read`].
    pub(super) fn try_read(&self, reader: &Reader, location: &Location) -> Result<()> {
        let place = place(location);
        if self.read.contains(&(place.class, place.container)) && !self.unassembled.contains(&place)
        {
            return Ok(());
        }
        reader.read(place.class, location).map(drop)
    }
}

/// Returns the damage record that would describe a place.
pub(super) fn place(location: &Location) -> Damage {
    let container = location.container;
    let fingerprint = location.chunk().fingerprint;
    Damage { class: container.class, container: container.name, fingerprint }
}
