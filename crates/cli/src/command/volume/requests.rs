//! Makes the requests of `control.rs` to an open volume.

use std::sync::Arc;

use cutpoint_volume::{CheckSummary, Error, Finding, Statistics, Volume};

use super::control::{Answer, CheckFinding, Request};
use super::seconds;
use crate::event::{self, VolumeCheckCounts, VolumeStats, VolumeWrites};

/// The maximum number of findings in an answer.
const FINDINGS_MAX: usize = 10_000;

/// Makes a request. `is_served` is set if clients may use the disks meanwhile.
pub(super) fn perform(
    volume: &Arc<Volume>,
    request: &Request,
    is_served: bool,
    is_asked_to_stop: &dyn Fn() -> bool,
) -> std::result::Result<Answer, Error> {
    match request {
        Request::Stats => {
            let stats = Box::new(stats(&volume.statistics()?));
            return Ok(Answer::Stats { stats });
        }
        Request::List => return Ok(listed(volume)),
        Request::Check => {
            let mut findings = Vec::new();
            let tell = |finding: &Finding| {
                if findings.len() < FINDINGS_MAX {
                    findings.push(CheckFinding::from(finding));
                }
            };
            let summary = volume.check(tell, is_asked_to_stop)?;
            return Ok(Answer::Check { findings, counts: counts(&summary) });
        }
        Request::Changed { from, to } => {
            let changed = volume.changed(from, to)?;
            let part = |part: std::ops::Range<u64>| (part.start, part.end - part.start);
            let parts = changed.map(|parts| parts.into_iter().map(part).collect());
            return Ok(Answer::Changed { parts });
        }
        Request::CreateDisk { name, size } => volume.create_disk(name, *size),
        Request::Snapshot { disk, name } => volume.snapshot(disk, name),
        Request::Clone { from, name } => volume.clone_disk(from, name),
        Request::Resize { disk, size } => volume.resize(disk, *size),
        Request::Delete { name } if is_served && !name.contains('@') => Err(used(name)),
        Request::RollBack { disk, .. } if is_served => Err(used(disk)),
        Request::RollBack { disk, snapshot } => volume.roll_back(disk, snapshot),
        Request::Delete { name } => volume.delete(name),
    }
    .map(|()| Answer::Done)
}

/// Returns the error that clients may use a disk whose contents would change under them.
fn used(disk: &str) -> Error {
    Error::in_use(disk, "is served, and clients may use it; end the server first")
}

/// Returns the disks and snapshots of a volume.
fn listed(volume: &Arc<Volume>) -> Answer {
    let block_size = volume.block_size() as u64;
    let disks = volume.disks().into_iter().map(|disk| event::VolumeDisk {
        name: disk.name,
        size_bytes: disk.size,
        own_bytes: disk.own_block_count * block_size,
    });
    let snapshots = volume.snapshots().into_iter().map(|snapshot| event::VolumeSnapshot {
        name: format!("{}@{}", snapshot.disk, snapshot.name),
        size_bytes: snapshot.size,
        own_bytes: snapshot.own_block_count * block_size,
        created_ns: seconds(snapshot.created).saturating_mul(1_000_000_000),
    });
    Answer::List { disks: disks.collect(), snapshots: snapshots.collect() }
}

/// Returns the counts of a check.
pub(super) fn counts(summary: &CheckSummary) -> VolumeCheckCounts {
    VolumeCheckCounts {
        finding_count: summary.finding_count,
        damaged_block_count: summary.damaged_block_count,
        stored_count: summary.stored_count,
        read_bytes: summary.read_bytes,
    }
}

/// Returns sizes and counts as an event.
fn stats(statistics: &Statistics) -> VolumeStats {
    let counters = statistics.counters;
    let [head_hit_count, tail_hit_count] = counters.hit_count;
    let [head_exhausted_count, tail_exhausted_count] = counters.exhausted_count;
    let [head_replaced_count, tail_replaced_count] = counters.replaced_count;
    let [burst_eighth_count, burst_quarter_count, burst_half_count, burst_longer_count] =
        counters.burst_len_counts;
    let [head_entry_count, tail_entry_count] = statistics.view_count;
    let [head_burst_count, tail_burst_count] = statistics.burst_count_by_side;
    let tables = statistics.bytes_by_table;
    VolumeStats {
        size_bytes: statistics.size,
        block_size_bytes: statistics.block_size,
        mode: statistics.mode.to_string(),
        compression: statistics.compression.to_string(),
        verifies_duplicates: statistics.verifies_duplicates,
        used_bytes: statistics.used_block_count * statistics.block_size,
        full_count: statistics.full_count,
        full_bytes: statistics.full_bytes,
        burst_count: statistics.burst_count,
        burst_bytes: statistics.burst_bytes,
        delta_count: statistics.delta_count,
        delta_bytes: statistics.delta_bytes,
        pinned_count: statistics.pinned_count,
        ratio: statistics.ratio(),
        live_bytes: statistics.live_bytes,
        physical_bytes: statistics.physical_bytes,
        free_bytes: statistics.free_bytes,
        limit_bytes: statistics.limit,
        reserve_bytes: statistics.reserve,
        table_bytes: statistics.table_bytes,
        table_memory_bytes: statistics.table_memory_bytes,
        map_table_bytes: tables.map,
        stored_table_bytes: tables.stored,
        fingerprint_table_bytes: tables.fingerprints,
        head_table_bytes: tables.heads,
        tail_table_bytes: tables.tails,
        feature_table_bytes: tables.features,
        lost_block_count: statistics.lost_block_count,
        layer_count: statistics.layer_count,
        fingerprint_entry_count: statistics.fingerprint_count,
        head_entry_count,
        tail_entry_count,
        head_burst_count,
        tail_burst_count,
        feature_entry_count: statistics.feature_count,
        writes: VolumeWrites {
            full_count: counters.full_count,
            burst_count: counters.burst_count,
            burst_data_bytes: counters.burst_bytes,
            burst_eighth_count,
            burst_quarter_count,
            burst_half_count,
            burst_longer_count,
            delta_count: counters.delta_count,
            duplicate_count: counters.duplicate_count,
            burst_duplicate_count: counters.burst_duplicate_count,
            zero_count: counters.zero_count,
            head_hit_count,
            tail_hit_count,
            head_exhausted_count,
            tail_exhausted_count,
            head_replaced_count,
            tail_replaced_count,
            cancelled_count: counters.cancelled_count,
            moved_count: counters.moved_count,
            rewritten_count: counters.rewritten_count,
        },
    }
}
