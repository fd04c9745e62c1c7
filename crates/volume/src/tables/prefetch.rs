//! Lookups ahead of records that are to be applied, so that the pages are in memory by then.

use cutpoint_delta::burst::Side;

use super::{Form, Stored, Tables, keys};
use crate::error::Result;
use crate::format::edge::{EdgeKey, Features};
use crate::format::position::Seq;
use crate::format::record::Body;
use crate::format::span::BlockId;
use crate::keys::Fingerprint;

impl Tables {
    /// Looks up most of what [`Tables::apply`] looks up for a record, and drops the results. Records
    /// before it need not have been applied. Records of several blocks, changes and summaries are
    /// passed over.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read, as `apply` then does.
    pub(crate) fn prefetch(&self, body: &Body) -> Result<()> {
        match body {
            Body::Full { id, fingerprint, is_indexed, keys, features, .. } => {
                if *is_indexed {
                    self.prefetch_fingerprint(fingerprint)?;
                }
                self.prefetch_views(keys, features.as_ref())?;
                self.prefetch_previous(*id)
            }
            Body::Burst { id, fingerprint, reference, side, .. } => {
                self.prefetch_reference(*reference, Some(*side))?;
                self.prefetch_fingerprint(fingerprint)?;
                self.prefetch_previous(*id)
            }
            Body::Delta { id, fingerprint, bases } => {
                bases.seqs().iter().try_for_each(|seq| self.prefetch_reference(*seq, None))?;
                self.prefetch_fingerprint(fingerprint)?;
                self.prefetch_previous(*id)
            }
            Body::Duplicate { id, target } => {
                self.stored(*target)?;
                self.prefetch_previous(*id)
            }
            Body::Move { target } | Body::Rewrite { target, .. } => self.stored(*target).map(drop),
            Body::Zero(span) if span.count == 1 => {
                self.prefetch_previous(BlockId { layer: span.layer, block: span.first })
            }
            Body::Zero(_) | Body::Fold { .. } | Body::Change { .. } | Body::Summary { .. } => {
                Ok(())
            }
        }
    }

    fn prefetch_fingerprint(&self, fingerprint: &Fingerprint) -> Result<()> {
        self.has(&keys::fingerprint(fingerprint)).map(drop)
    }

    fn prefetch_views(
        &self,
        edges: &[Option<EdgeKey>; 2],
        features: Option<&Features>,
    ) -> Result<()> {
        for (side, key) in Side::ALL.into_iter().zip(edges) {
            let Some(key) = key else { continue };
            self.edge(side, key)?;
        }
        for (index, feature) in features.into_iter().flatten().enumerate() {
            self.feature(index, *feature)?;
        }
        Ok(())
    }

    /// Looks up what is released when a block gets another content.
    fn prefetch_previous(&self, id: BlockId) -> Result<()> {
        let Some(previous) = self.own(id)? else { return Ok(()) };
        let Some(stored) = self.stored(previous)? else { return Ok(()) };
        let Stored { fingerprint, form, .. } = &stored;
        self.prefetch_fingerprint(fingerprint)?;
        let side = match form {
            Form::Full { keys, features, .. } => {
                return self.prefetch_views(keys, features.as_ref());
            }
            Form::Burst { side, .. } => Some(*side),
            Form::Delta { .. } => None,
        };
        stored.references().iter().try_for_each(|seq| self.prefetch_reference(*seq, side))
    }

    /// Looks up a reference block, and the entry that leads to it. `side` is that of a burst.
    fn prefetch_reference(&self, reference: Seq, side: Option<Side>) -> Result<()> {
        let Some(stored) = self.stored(reference)? else { return Ok(()) };
        if let (Form::Full { keys, .. }, Some(side)) = (stored.form, side)
            && let Some(key) = keys[side as usize]
        {
            self.edge(side, &key)?;
        }
        Ok(())
    }
}
