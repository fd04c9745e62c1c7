//! Whether a composite is worth it.

use super::region::Probe;

/// A composite is stored where it takes no more than so many sixteenths of what the chunk takes, when
/// both are compressed: each has its price when it is read.
const SIXTEENTHS: u64 = 15;
/// Where it takes so many times less than it may by the last sample, the chunk is not sampled.
const CLEAR_TIMES: u64 = 2;
/// So many chunks in a row are judged by one sample.
const UNSAMPLED_MAX: u32 = 16;

/// Judges composites by how their chunks compress. A sample of the chunk tells; or that of one shortly
/// before, where its answer is clear by far. What is decided depends on the chunks alone, in their order.
#[derive(Debug, Default)]
pub(super) struct Worth {
    /// What was sampled last: the length of the chunk, and how long it is when compressed, in bytes.
    sampled: Option<(u64, u64)>,
    unsampled_count: u32,
}

/// How many bytes a composite may take beside those that are new, if nothing compresses. Where there are
/// none it is never worth it.
pub(super) fn spare_len(chunk: &[u8], literals_len: usize) -> u64 {
    (chunk.len() as u64 * SIXTEENTHS / 16).saturating_sub(literals_len as u64)
}

impl Worth {
    /// Whether `chunk` is to be stored as a composite that takes `composite_len` bytes beside
    /// `literals_len` bytes that are new, and that compress as the chunk does.
    pub(super) fn is_worth(
        &mut self,
        chunk: &[u8],
        literals_len: usize,
        composite_len: usize,
        probe: &mut Probe,
    ) -> bool {
        let chunk_len = chunk.len() as u64;
        // What it may take if nothing compresses; else that share of it which is left of a chunk.
        let len_max = spare_len(chunk, literals_len);
        let composite_len = composite_len as u64;
        if composite_len > len_max {
            return false;
        }
        if let Some((sampled_len, compressed_len)) = self.sampled
            && self.unsampled_count < UNSAMPLED_MAX
            && composite_len * CLEAR_TIMES * sampled_len <= len_max * compressed_len
        {
            self.unsampled_count += 1;
            return true;
        }
        let compressed_len = probe.compressed_len(chunk) as u64;
        (self.sampled, self.unsampled_count) = (Some((chunk_len, compressed_len)), 0);
        composite_len * chunk_len <= len_max * compressed_len
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    const LEN: usize = 64 * 1024;

    #[test]
    fn a_sample_decides_where_it_is_not_clear() {
        let mut probe = Probe::new().expect("there is memory");
        let random = SplitMix64::bytes(1, LEN);
        let zeros = vec![0; LEN];
        let mut worth = Worth::default();
        assert!(
            worth.is_worth(&random, 0, LEN / 4, &mut probe),
            "a quarter of what is left as it is"
        );
        assert!(worth.is_worth(&zeros, 0, LEN / 4, &mut probe), "as the chunk before, by far");
        assert!(worth.is_worth(&zeros, LEN / 2, LEN / 8, &mut probe), "the same with new bytes");
        assert!(
            !worth.is_worth(&zeros, 0, LEN / 2, &mut probe),
            "not by far: nothing is left of zeros"
        );
        assert!(
            !worth.is_worth(&zeros, 0, LEN / 4, &mut probe),
            "as the chunk before: nothing is left"
        );
        assert!(worth.is_worth(&random, 0, LEN * 15 / 16, &mut probe), "the most");
        assert!(!worth.is_worth(&random, 0, LEN * 15 / 16 + 1, &mut probe), "more");
        assert!(!worth.is_worth(&random, LEN / 2, LEN / 2, &mut probe), "new bytes count");
        assert!(!worth.is_worth(&random, LEN, 1, &mut probe), "all are new");
    }

    #[test]
    fn chunks_are_sampled_again() {
        let mut probe = Probe::new().expect("there is memory");
        let mut worth = Worth::default();
        let random = SplitMix64::bytes(1, LEN);
        assert!(worth.is_worth(&random, 0, LEN / 4, &mut probe), "a quarter");
        for count in 0..UNSAMPLED_MAX {
            assert!(worth.is_worth(&vec![0; LEN], 0, LEN / 4, &mut probe), "{count} chunks later");
        }
        assert!(!worth.is_worth(&vec![0; LEN], 0, LEN / 4, &mut probe), "sampled again");
    }
}
