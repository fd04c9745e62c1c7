//! Places of chunks: what this check has found of them, and what earlier checks have recorded.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::Damage;
use crate::index::Location;
use crate::name::PartName;
use crate::reader::Reader;

/// What was found, or recorded, of places of chunks.
pub(super) struct Known {
    /// Containers that are gone.
    pub(super) gone: HashSet<(Class, PartName)>,
    /// Records whose chunk cannot be read: this check has tried.
    pub(super) bad: HashSet<Damage>,
    /// The containers of which this check has read all.
    pub(super) read: HashSet<(Class, PartName)>,
    /// Composites that lack a whole, and wholes that cannot be had: this check has tried.
    pub(super) unbuilt: HashSet<Damage>,
    pub(super) lacking: HashMap<(Class, Fingerprint), Error>,
    /// Records of which an earlier check says that they are damaged.
    pub(super) recorded: HashSet<Damage>,
}

impl Known {
    /// Whether nothing is known against a place.
    pub(super) fn is_there(&self, location: &Location) -> bool {
        let place = place(location);
        !self.gone.contains(&(place.class, place.container)) && !self.bad.contains(&place)
    }

    pub(super) fn is_recorded(&self, location: &Location) -> bool {
        self.recorded.contains(&place(location))
    }

    /// Reads a place where nothing is known against it, unless this check has done so.
    ///
    /// # Errors
    ///
    /// As [`Reader::read`].
    pub(super) fn try_read(&self, reader: &Reader, location: &Location) -> Result<()> {
        let place = place(location);
        if self.read.contains(&(place.class, place.container)) && !self.unbuilt.contains(&place) {
            return Ok(());
        }
        reader.read(place.class, location).map(drop)
    }
}

/// What a record of damage would say of a place.
pub(super) fn place(location: &Location) -> Damage {
    let container = location.container;
    let fingerprint = location.chunk().fingerprint;
    Damage { class: container.class, container: container.name, fingerprint }
}
