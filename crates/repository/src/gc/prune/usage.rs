//! Estimates of what stays of a container.

use crate::format::segment::ContainerRecord;
use crate::format::toc::{ChunkRecord, Form, RegionRecord, Toc};
use crate::gc::locate::{LiveChunks, staying};

/// Minimum share of a region, in percent, that has to stay for the region to be copied in its
/// compressed form.
const COPIED_PERCENT: u64 = 70;

/// Estimates of what stays of a container.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Length of the container less the bytes of chunks that do not stay.
    pub(super) live_bytes: u64,
    /// Part of `live_bytes` that stays only for delta chunks.
    pub(super) pinned_bytes: u64,
    /// Number and total size of the delta chunks that would be stored as full chunks if the
    /// container were rewritten.
    pub(super) inlined_count: u64,
    pub(super) inlined_bytes: u64,
    /// Decoded size of the chunks that stay.
    pub(super) raw_bytes: u64,
}

impl Usage {
    /// Estimates what stays of a container whose live chunks are `live`.
    pub(super) fn of(container: &ContainerRecord, toc: &Toc, live: &LiveChunks) -> Usage {
        let staying = staying(toc, live);
        let mut found = Usage { live_bytes: u64::from(container.stored_len), ..Usage::default() };
        for (region, number) in toc.regions.iter().zip(0..) {
            let stored = |len: u64| {
                u64::from(region.stored_len) * len.min(u64::from(region.raw_len))
                    / u64::from(region.raw_len).max(1)
            };
            let start = staying.partition_point(|chunk| chunk.region < number);
            let end = staying.partition_point(|chunk| chunk.region <= number);
            let chunks = &staying[start..end];
            let pinned = chunks.iter().filter(|chunk| !live[&chunk.fingerprint].is_reached);
            let pinned_len = pinned.map(|chunk| u64::from(chunk.payload_len)).sum();
            found.pinned_bytes += stored(pinned_len);
            let live_len = chunks.iter().map(|chunk| u64::from(chunk.payload_len)).sum();
            found.raw_bytes += live_len;
            let dead = u64::from(region.stored_len) - stored(live_len);
            found.live_bytes = found.live_bytes.saturating_sub(dead);
            if !is_copied(region, chunks) {
                for chunk in chunks.iter().filter(|chunk| chunk.form == Form::Delta) {
                    found.inlined_count += 1;
                    found.inlined_bytes += u64::from(chunk.chunk_len);
                }
            }
        }
        found
    }
}

/// Returns `true` if a region of which `live` stays is copied in its compressed form.
pub(super) fn is_copied(region: &RegionRecord, live: &[&ChunkRecord]) -> bool {
    let live_len: u64 = live.iter().map(|chunk| u64::from(chunk.payload_len)).sum();
    live_len * 100 >= u64::from(region.raw_len) * COPIED_PERCENT
}
