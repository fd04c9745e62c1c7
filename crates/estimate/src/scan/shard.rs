//! Shards of a scan: the parts that are read apart, on one machine or several.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use cutpoint_chunking::{Chunker, Ranges, Spec, SpecError};

/// One of several scans that together read every file once.
///
/// A file is divided into ranges of one size, and its first range belongs to a shard chosen by the
/// path of the file, or by its inode if the file has several paths. Each further range belongs to
/// the next shard. So a file of at most one range belongs to one shard as a whole.
///
/// The chunks that start in a range belong to its shard. Their cut-points are those of one pass if
/// every chunk starts where the previous one ends, which only all shards together show
/// ([`Ranges`]). A range begins anew behind a hole of the file, where a chunk starts in any case.
#[derive(Clone, Debug)]
pub struct Shard {
    number: u64,
    count: u64,
    range_size: u64,
    ranges: Arc<Ranges<Box<dyn Chunker>>>,
}

/// The part of a stream that a shard reads at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The bytes to read: the range with its warm-up, and with what its last chunk may need.
    pub(super) read: Range<u64>,
    /// The range: the chunks that start in it count.
    pub(super) owned: Range<u64>,
}

impl Shard {
    /// Creates the shard `number`, from 0, of `count`, in which files are cut by `spec` in ranges of
    /// `range_size` bytes. Only shards of the same count, spec and size fit together.
    ///
    /// # Errors
    ///
    /// Returns an error if the specification has no maximum chunk size, or if its cut-points depend
    /// on other chunks.
    pub fn new(
        number: u32,
        count: NonZero<u32>,
        spec: &Spec,
        range_size: NonZero<u64>,
    ) -> Result<Shard, SpecError> {
        Ok(Shard {
            number: u64::from(number),
            count: u64::from(count.get()),
            range_size: range_size.get(),
            ranges: Arc::new(Ranges::new(spec.clone().bounded()?.chunker())),
        })
    }

    /// Returns the number of bytes of a file of `size` bytes that belong to this shard, or `None` if
    /// the file does not concern it. `hash` identifies the file.
    pub(super) fn share(&self, hash: u64, size: u64) -> Option<u64> {
        // An empty file belongs to the shard of its first range.
        let mut ranges = self.owned(hash, 0..size.max(1)).peekable();
        ranges.peek()?;
        Some(ranges.map(|range| range.end.min(size) - range.start).sum())
    }

    /// Returns the ranges of this shard in `bytes` of a file.
    pub(super) fn owned(
        &self,
        hash: u64,
        bytes: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let Shard { number, count, range_size, .. } = *self;
        // A single shard has no seams.
        let range_size = if count == 1 { u64::MAX } else { range_size };
        let first = bytes.start / range_size;
        let next = (number + count - (hash % count + first % count) % count) % count;
        (first + next..bytes.end.div_ceil(range_size))
            .step_by(usize::try_from(count).unwrap_or(usize::MAX))
            .map(move |index| {
                let start = index * range_size;
                start.max(bytes.start)..start.saturating_add(range_size).min(bytes.end)
            })
    }

    /// Returns the parts of this shard in `stream`, a range of a file at whose start a chunk starts
    /// and at whose end one ends.
    pub(super) fn parts(&self, hash: u64, stream: Range<u64>) -> impl Iterator<Item = Part> {
        self.owned(hash, stream.clone()).map(move |owned| {
            let start = stream.start;
            let reach = self.ranges.reach(&(owned.start - start..owned.end - start));
            let end = reach.end.saturating_add(start).min(stream.end);
            Part { read: reach.start + start..end, owned }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(count: u32, range_size: u64) -> Vec<Shard> {
        let spec: Spec = "fastcdc:avg=4k".parse().expect("the spec is right");
        let count = NonZero::new(count).expect("it is not 0");
        let range_size = NonZero::new(range_size).expect("it is not 0");
        let shard = |number| Shard::new(number, count, &spec, range_size).expect("it is bounded");
        (0..count.get()).map(shard).collect()
    }

    #[test]
    fn shards_divide_every_stream() {
        for (count, range_size) in [(1, 10), (2, 10), (3, 7), (7, 100), (5, u64::MAX)] {
            let shards = shards(count, range_size);
            for hash in [0, 1, 2, 123_456_789, u64::MAX] {
                for bytes in [0..1, 0..100, 3..4, 9..21, 10..20, 55..700] {
                    let owned = shards.iter().map(|shard| shard.owned(hash, bytes.clone()));
                    let mut all: Vec<Range<u64>> = owned.flatten().collect();
                    all.sort_by_key(|range| range.start);
                    assert!(all.iter().all(|range| range.start < range.end), "{all:?}");
                    let ends = all.iter().map(|range| range.end);
                    let starts = all.iter().map(|range| range.start);
                    let bounds = [bytes.start].into_iter().chain(ends);
                    assert!(
                        bounds.eq(starts.chain([bytes.end])),
                        "{count} of {range_size}, hash {hash}, {bytes:?}: {all:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn small_file_belongs_to_one_shard() {
        for hash in 0..9 {
            for size in [0, 1, 100] {
                let shares = shards(4, 100).into_iter().map(|shard| shard.share(hash, size));
                let shares: Vec<u64> = shares.flatten().collect();
                assert_eq!(shares, [size], "hash {hash}");
            }
            let shares = shards(4, 100).into_iter().filter_map(|shard| shard.share(hash, 350));
            assert_eq!(shares.sum::<u64>(), 350, "hash {hash}");
        }
    }

    /// A part reads the warm-up before its range, but nothing outside of its stream.
    #[test]
    fn parts_stay_within_their_stream() {
        let shards = shards(2, 1_000_000);
        let ranges = Ranges::new(shards[0].ranges.chunker());
        let parts: Vec<Part> =
            shards.iter().flat_map(|shard| shard.parts(0, 4096..2_500_000)).collect();
        let warm_up = ranges.warm_up_size();
        let needed = ranges.reach(&(0..0)).end;
        let expected = [
            Part { read: 4096..1_000_000 + needed, owned: 4096..1_000_000 },
            Part { read: 2_000_000 - warm_up..2_500_000, owned: 2_000_000..2_500_000 },
            Part { read: 1_000_000 - warm_up..2_000_000 + needed, owned: 1_000_000..2_000_000 },
        ];
        assert_eq!(parts, expected);
    }
}
