//! Full chunks that others may become delta chunks of, found by their super-features.

use std::collections::HashMap;

use cutpoint_delta::super_features;

use crate::format::fingerprint::{Class, Fingerprint};

/// Maximum number of full chunks that are remembered by their super-features, which takes 60 MB.
/// Half of them may come from the newest snapshots.
pub(super) const BASES_MAX: usize = 400_000;

/// Full chunks, indexed by their super-features.
#[derive(Default)]
pub(super) struct Bases {
    /// Maps a super-feature to the number of the first full chunk that has it.
    by_feature: HashMap<u64, u32>,
    pub(super) full_chunks: Vec<(Class, Fingerprint)>,
}

impl Bases {
    /// Returns the first full chunk that shares a super-feature with `bytes`. If there is none,
    /// `chunk` itself is added and returned, as long as there are fewer than `count_max`.
    pub(super) fn find_or_add(
        &mut self,
        chunk: (Class, Fingerprint),
        bytes: &[u8],
        count_max: usize,
    ) -> Option<u32> {
        let kind = u64::from(chunk.0 == Class::Meta);
        let features = super_features(bytes)?.map(|feature| feature ^ kind);
        let found = features.iter().find_map(|feature| self.by_feature.get(feature)).copied();
        if found.is_none() && self.full_chunks.len() < count_max {
            let number = u32::try_from(self.full_chunks.len()).ok()?;
            self.full_chunks.push(chunk);
            self.by_feature.extend(features.map(|feature| (feature, number)));
            return Some(number);
        }
        found
    }
}
