//! The measurement of the examples: the contenders take turns, and the median CPU time counts.

use cutpoint_testing::thread_cpu_time;

/// A contender: one call processes its data once.
pub(crate) type Work<'a> = Box<dyn FnMut() + 'a>;

/// Calls each of `works` once to warm up and once per round, and returns the speed of each in GB
/// (10^9 bytes) per second of this thread's CPU time. One call processes `size` bytes. The median
/// of the rounds counts, so that a disturbed round does not.
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

/// Returns the median, the upper one of an even number of values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
