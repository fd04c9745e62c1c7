//! The decision whether a delta chunk is worthwhile.

use super::region::Probe;

/// Maximum size of a delta chunk, in sixteenths of the size of its chunk, both compressed. The
/// margin is there because each delta chunk makes reading more expensive.
const SIXTEENTHS: u64 = 15;
/// Factor by which a delta chunk must stay below its limit to be judged by the last sample instead
/// of its own.
const CLEAR_TIMES: u64 = 2;
/// Factor by which a delta chunk over chunks of the same run counts. Later versions are compared
/// with it, and each lists its extents again. A full chunk would be compressed together with
/// its neighbours, which it may resemble as much.
const RUN_TIMES: usize = 3;
/// Maximum number of consecutive chunks that are judged by one sample.
const UNSAMPLED_MAX: u32 = 16;

/// The limit of the cost of a delta chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The delta chunk must be smaller than its chunk, both uncompressed.
    Smaller,
    /// The delta chunk must be clearly smaller than its chunk, both compressed. Samples tell how
    /// well chunks compress.
    Sampled,
    /// As `Sampled`, for a delta chunk over chunks of the same run: it counts as several times as
    /// large, and the chunk as one of many that are alike.
    SampledOfRun,
}

/// Judges delta chunks by how well their chunks compress. The measure is a sample of the chunk, or
/// that of a recent chunk if the answer is clear by far. The decisions depend only on the chunks
/// and their order.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Length of the chunk that was sampled last, and its estimated compressed length, in bytes.
    sampled: Option<(u64, u64)>,
    unsampled_count: u32,
}

impl Limit {
    /// Returns `false` if no delta chunk with `literals_len` new bytes can be within the limit.
    pub(super) fn admits(self, chunk: &[u8], literals_len: usize) -> bool {
        self == Limit::Smaller || spare_len(chunk, literals_len) > 0
    }
}

/// Returns the number of bytes that a delta chunk may take besides its new ones, if nothing
/// compresses.
fn spare_len(chunk: &[u8], literals_len: usize) -> u64 {
    (chunk.len() as u64 * SIXTEENTHS / 16).saturating_sub(literals_len as u64)
}

impl Cost {
    /// Returns `true` if `chunk` should be stored as a delta chunk that takes `delta_chunk_len`
    /// bytes besides `literals_len` new bytes. `has_neighbours` is set if its region has full chunks
    /// before it.
    pub(super) fn is_within(
        &mut self,
        limit: Limit,
        (chunk, has_neighbours): (&[u8], bool),
        literals_len: usize,
        delta_chunk_len: usize,
        probe: &mut Probe,
    ) -> bool {
        match limit {
            Limit::Smaller => literals_len + delta_chunk_len < chunk.len(),
            Limit::Sampled => {
                let chunk = (chunk, has_neighbours);
                self.is_clearly_smaller(chunk, literals_len, delta_chunk_len, probe)
            }
            Limit::SampledOfRun => {
                let counted_len = delta_chunk_len * RUN_TIMES;
                self.is_clearly_smaller((chunk, true), literals_len, counted_len, probe)
            }
        }
    }

    /// Applies [`Limit::Sampled`]. The new bytes are assumed to compress as well as the chunk.
    fn is_clearly_smaller(
        &mut self,
        (chunk, has_neighbours): (&[u8], bool),
        literals_len: usize,
        delta_chunk_len: usize,
        probe: &mut Probe,
    ) -> bool {
        let chunk_len = chunk.len() as u64;
        // The limit if nothing compresses. For compressible chunks it shrinks in proportion.
        let len_max = spare_len(chunk, literals_len);
        let delta_chunk_len = delta_chunk_len as u64;
        if delta_chunk_len > len_max {
            return false;
        }
        if let Some((sampled_len, compressed_len)) = self.sampled
            && self.unsampled_count < UNSAMPLED_MAX
            && delta_chunk_len * CLEAR_TIMES * sampled_len <= len_max * compressed_len
        {
            self.unsampled_count += 1;
            return true;
        }
        let compressed_len = probe.compressed_len(chunk, has_neighbours) as u64;
        (self.sampled, self.unsampled_count) = (Some((chunk_len, compressed_len)), 0);
        delta_chunk_len * chunk_len <= len_max * compressed_len
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    const LEN: usize = 64 * 1024;

    #[test]
    fn unclear_delta_chunk_is_decided_by_a_sample() {
        let mut probe = Probe::new().expect("there is memory");
        let random = SplitMix64::bytes(1, LEN);
        let zeros = vec![0; LEN];
        let mut cost = Cost::default();
        assert!(
            cost.is_clearly_smaller((&random, true), 0, LEN / 4, &mut probe),
            "a quarter of what is left as it is"
        );
        assert!(
            cost.is_clearly_smaller((&zeros, true), 0, LEN / 4, &mut probe),
            "as the chunk before, by far"
        );
        assert!(
            cost.is_clearly_smaller((&zeros, true), LEN / 2, LEN / 8, &mut probe),
            "the same with new bytes"
        );
        assert!(
            !cost.is_clearly_smaller((&zeros, true), 0, LEN / 2, &mut probe),
            "not by far: nothing is left of zeros"
        );
        assert!(
            !cost.is_clearly_smaller((&zeros, true), 0, LEN / 4, &mut probe),
            "as the chunk before: nothing is left"
        );
        assert!(cost.is_clearly_smaller((&random, true), 0, LEN * 15 / 16, &mut probe), "the most");
        assert!(
            !cost.is_clearly_smaller((&random, true), 0, LEN * 15 / 16 + 1, &mut probe),
            "more"
        );
        assert!(
            !cost.is_clearly_smaller((&random, true), LEN / 2, LEN / 2, &mut probe),
            "new bytes count"
        );
        assert!(!cost.is_clearly_smaller((&random, true), LEN, 1, &mut probe), "all are new");
    }

    #[test]
    fn delta_chunk_over_chunks_of_the_run_counts_more() {
        let mut probe = Probe::new().expect("there is memory");
        let random = SplitMix64::bytes(2, LEN);
        let mut is_within =
            |limit, len| Cost::default().is_within(limit, (&random, true), 0, len, &mut probe);
        assert!(is_within(Limit::Sampled, LEN / 2));
        assert!(!is_within(Limit::SampledOfRun, LEN / 2));
        assert!(is_within(Limit::SampledOfRun, LEN / 4));
    }

    #[test]
    fn chunks_are_sampled_again() {
        let mut probe = Probe::new().expect("there is memory");
        let mut cost = Cost::default();
        let random = SplitMix64::bytes(1, LEN);
        assert!(cost.is_clearly_smaller((&random, true), 0, LEN / 4, &mut probe), "a quarter");
        for count in 0..UNSAMPLED_MAX {
            assert!(
                cost.is_clearly_smaller((&vec![0; LEN], true), 0, LEN / 4, &mut probe),
                "{count} chunks later"
            );
        }
        assert!(
            !cost.is_clearly_smaller((&vec![0; LEN], true), 0, LEN / 4, &mut probe),
            "sampled again"
        );
    }
}
