//! The limit of the work that comparisons within the run take.

/// Number of bytes that may be decoded for each byte that a delta copies. Decoding two bytes takes
/// less CPU time than compressing one, which is no longer necessary. Where changes are sparse, each
/// of them needs a region of its own.
const DECODED_PER_COPIED: u64 = 8;
/// Number of new bytes for which one byte may be decoded in vain.
const NEW_PER_DECODED: u64 = 16;
/// Number of bytes that may be decoded in vain at first.
const ALLOWANCE: u64 = 128 * 1024 * 1024;

/// A budget of bytes to decode. Counts bytes and no time, so that the stored bytes depend on the
/// input alone.
#[derive(Debug)]
pub(super) struct Budget {
    spent: u64,
    earned: u64,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { spent: 0, earned: ALLOWANCE }
    }

    /// Returns `true` if a region may be decoded.
    pub(super) fn is_left(&self) -> bool {
        self.spent < self.earned
    }

    /// Records that a region of `len` bytes is decoded.
    pub(super) fn spend(&mut self, len: usize) {
        self.spent += len as u64;
    }

    /// Records that a new chunk of `len` bytes is stored, `copied_len` of which a delta copies from
    /// chunks of the run.
    pub(super) fn earn(&mut self, len: usize, copied_len: usize) {
        self.earned += len as u64 / NEW_PER_DECODED + copied_len as u64 * DECODED_PER_COPIED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data that resembles nothing may cost a sixteenth of its length, data that does eight times as
    /// much as is copied.
    #[test]
    fn budget_grows_with_gain() {
        let mut budget = Budget::new();
        budget.spend(usize::try_from(ALLOWANCE).expect("it fits"));
        assert!(!budget.is_left(), "the allowance is spent");
        budget.earn(16_000, 0);
        budget.spend(999);
        assert!(budget.is_left(), "one byte is left");
        budget.spend(1);
        assert!(!budget.is_left());
        budget.earn(16_000, 4000);
        budget.spend(32_999);
        assert!(budget.is_left(), "one byte is left");
        budget.spend(1);
        assert!(!budget.is_left());
    }
}
