//! How the examples measure: what is compared takes turns, in CPU time, and medians count.

use cutpoint_testing::thread_cpu_time;

/// Something to be measured: it goes over its data once.
pub(crate) type Work<'a> = Box<dyn FnMut() + 'a>;

/// Does each of `works` once a round, and once before: how many GB (10^9 bytes) of its `size` bytes
/// each does in a second of this thread's CPU time. Medians, so that a round that others disturb
/// does not count.
pub(crate) fn speeds(rounds: usize, size: usize, works: &mut [Work<'_>]) -> Vec<f64> {
    let mut seconds = vec![Vec::with_capacity(rounds); works.len()];
    works.iter_mut().for_each(|work| work());
    for _ in 0..rounds {
        for (work, seconds) in works.iter_mut().zip(&mut seconds) {
            let started = thread_cpu_time().as_secs_f64();
            work();
            seconds.push(thread_cpu_time().as_secs_f64() - started);
        }
    }
    seconds.into_iter().map(|seconds| size as f64 / median(seconds) / 1e9).collect()
}

/// The one in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
