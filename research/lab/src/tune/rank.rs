//! The speed and the rank of specifications.

use std::collections::HashSet;

use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::thread_cpu_time;

use super::{Origin, TuneResult};

/// The maximum part of the sample on which speed is measured, in bytes.
const SPEED_SIZE_MAX: usize = 64 << 20;
/// The number of measurements, of which the fastest counts.
const SPEED_ROUND_COUNT: usize = 3;

/// Sorts by net savings, then by speed, and marks the best.
pub(super) fn rank(tuned: &mut [TuneResult]) {
    tuned.sort_by(|one, other| {
        let stored = one.net.stored_bytes.cmp(&other.net.stored_bytes);
        stored.then(other.bytes_per_second.total_cmp(&one.bytes_per_second))
    });
    mark_best(tuned);
    mark_best_of_algorithms(tuned);
}

/// Marks the Pareto front. The specifications are sorted by savings, so that one is on the front if
/// it is faster than all before it.
pub(super) fn mark_best(tuned: &mut [TuneResult]) {
    let mut fastest = 0.0;
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best = each.bytes_per_second > fastest;
        fastest = each.bytes_per_second.max(fastest);
    }
}

/// Marks the first specification of each algorithm at the wanted mean.
pub(super) fn mark_best_of_algorithms(tuned: &mut [TuneResult]) {
    let mut seen = HashSet::new();
    for each in tuned.iter_mut().filter(|each| each.origin != Origin::Paper) {
        each.is_best_of_algorithm = seen.insert(each.spec.algorithm());
    }
}

/// Measures the speed of cutting a sample: the best of a few rounds, in bytes per second of CPU
/// time.
pub(super) fn speed(spec: &Spec, streams: &[Vec<u8>]) -> f64 {
    let chunker = spec.chunker();
    let mut best = 0.0;
    for _ in 0..SPEED_ROUND_COUNT {
        let (mut size, mut chunk_count) = (0, 0);
        let began = thread_cpu_time();
        for stream in streams {
            if size >= SPEED_SIZE_MAX {
                break;
            }
            let part = &stream[..stream.len().min(SPEED_SIZE_MAX - size)];
            chunk_count += cuts(&*chunker, part).count();
            size += part.len();
        }
        std::hint::black_box(chunk_count);
        let seconds = thread_cpu_time().saturating_sub(began).as_secs_f64();
        if seconds > 0.0 {
            best = f64::max(best, size as f64 / seconds);
        }
    }
    best
}
