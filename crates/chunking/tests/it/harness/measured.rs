//! Measured means, and tests on all processors.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use cutpoint_chunking::{Chunks, Spec};
use cutpoint_testing::SplitMix64;

/// Calls `test` for each item with its index, on all processors.
pub(crate) fn on_all_processors<T: Sync>(items: &[T], test: impl Fn(usize, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(index)
                {
                    test(index, item);
                }
            });
        }
    });
}

/// A reader of the bytes of SplitMix64, without end.
struct Endless(SplitMix64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (words, rest) = buffer.as_chunks_mut::<8>();
        for word in words.iter_mut() {
            *word = self.0.next().to_le_bytes();
        }
        // A read of less than 8 bytes returns the first bytes of a number; the rest of the number
        // is dropped.
        if words.is_empty() {
            rest.copy_from_slice(&self.0.next().to_le_bytes()[..rest.len()]);
            return Ok(rest.len());
        }
        Ok(words.len() * 8)
    }
}

/// Returns the mean size of the first `count` chunks of random data, in bytes.
pub(crate) fn measured_mean(spec: &Spec, count: usize) -> f64 {
    let mut chunks = Chunks::new(spec.chunker(), Endless(SplitMix64::new(99)));
    for _ in 0..count {
        chunks.next().expect("memory does not fail").expect("it has no end");
    }
    chunks.offset() as f64 / count as f64
}
