//! Comparisons of a chunker's cut-points with expected ones, and the invariants of every rule.

use cutpoint_chunking::{Chunker, Level, Spec};

use super::feeds::{Feed, fed_cuts};

/// Returns the cut-points of `data` by the reference of the written-out `spec`.
pub(crate) fn reference_cuts(spec: &Spec, data: &[u8]) -> Vec<usize> {
    let cuts = cutpoint_oracle::cuts(&spec.to_string(), data);
    cuts.unwrap_or_else(|| panic!("{} has no reference", spec.algorithm()))
}

/// Checks that `spec` cuts `data` like its reference, however the data is fed and on every level.
pub(crate) fn check(spec: &Spec, name: &str, data: &[u8]) {
    let expected = reference_cuts(spec, data);
    let name = format!("{spec}, {} bytes of {name}", data.len());
    check_cuts(&*spec.chunker(), &name, data, &expected);
    check_levels(|level| spec.chunker_at(level), &name, data, &expected);
}

/// Checks that every level for which a rule has code cuts `data` as expected.
pub(crate) fn check_levels(
    chunker_at: impl Fn(Level) -> Box<dyn Chunker>,
    name: &str,
    data: &[u8],
    expected: &[usize],
) {
    for level in Level::available().into_iter().chain([Level::EMULATED]) {
        let chunker = chunker_at(level);
        if chunker.level() == level {
            for feed in [Feed::Whole, Feed::Batches(1 + data.len() / 3, 7)] {
                let ends = fed_cuts(&*chunker, data, feed);
                assert!(
                    ends == expected,
                    "{name}, at level {}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
                    level.name(),
                    ends.len(),
                    expected.len(),
                    ends.iter().zip(expected).find(|(ours, theirs)| ours != theirs)
                );
            }
        }
    }
}

/// Checks that `chunker` cuts `data` as expected, however the data is fed.
pub(crate) fn check_cuts(chunker: &dyn Chunker, name: &str, data: &[u8], expected: &[usize]) {
    // Byte by byte, unless that takes too long.
    let small = 1 + data.len() / 3000;
    for feed in [
        Feed::Whole,
        Feed::Slices(small, 1),
        Feed::Slices(200 * small, 2),
        Feed::Batches(1000 * small, 8),
        Feed::Reader(300 * small, 3),
        Feed::Push(small, 4),
        Feed::Push(500 * small, 5),
        Feed::Async(200 * small, 6),
    ] {
        let ends = fed_cuts(chunker, data, feed);
        let first = ends.iter().zip(expected).position(|(ours, theirs)| ours != theirs);
        assert!(
            ends == expected,
            "{name}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
            ends.len(),
            expected.len(),
            first.map(|index| (index, ends[index], expected[index]))
        );
    }
    check_invariants(chunker, data, expected);
}

/// Checks the invariants of every rule: chunks cover `data` in order, within the sizes.
pub(crate) fn check_invariants(chunker: &dyn Chunker, data: &[u8], ends: &[usize]) {
    assert_eq!(ends.last().copied().unwrap_or(0), data.len(), "the last end");
    let mut start = 0;
    for &end in ends {
        assert!(start < end, "order at {start}");
        let size = end - start;
        assert!(end == data.len() || size >= chunker.chunk_size_min(), "{size} bytes at {start}");
        assert!(chunker.chunk_size_max().is_none_or(|max| size <= max), "{size} at {start}");
        start = end;
    }
}
