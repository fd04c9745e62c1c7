//! The first keys of the pages of a run.

use std::ops::Range;

use super::key::{Key, PREFIX_LEN};

/// The first bytes of the first key of each page, in order.
#[derive(Debug, Default)]
pub(crate) struct Fences(Vec<[u8; PREFIX_LEN]>);

impl Fences {
    /// Takes `count` fences from their bytes. Returns `None` if these are fewer or not in order.
    pub(crate) fn of_bytes(bytes: &[u8], count: usize) -> Option<Fences> {
        let (fences, _) = bytes.as_chunks::<PREFIX_LEN>();
        let fences = fences.get(..count)?.to_vec();
        fences.is_sorted().then_some(Fences(fences))
    }

    pub(crate) fn push(&mut self, first: &Key) {
        self.0.push(first.prefix());
    }

    /// Returns `true` if the first fence is that of a key.
    pub(crate) fn begin_with(&self, first: &Key) -> bool {
        self.0.first() == Some(&first.prefix())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    /// Returns the number of pages whose first keys are before a key.
    pub(crate) fn count_before(&self, key: &Key) -> u64 {
        self.index_of(number(&key.prefix())) as u64
    }

    /// Returns the pages that may have a key.
    pub(crate) fn pages_of(&self, key: &Key) -> Range<u64> {
        let prefix = number(&key.prefix());
        // Several keys can have one prefix, so that an earlier page may end with the key.
        let start = self.index_of(prefix).saturating_sub(1);
        // Seldom more than two pages.
        let count = self.0[start..].iter().take_while(|fence| number(fence) <= prefix).count();
        start as u64..(start + count) as u64
    }

    /// Returns the number of fences before a prefix.
    fn index_of(&self, prefix: u128) -> usize {
        self.0.partition_point(|fence| number(fence) < prefix)
    }
}

/// Returns a prefix as a number, whose order is that of the bytes and which is compared faster.
fn number(prefix: &[u8; PREFIX_LEN]) -> u128 {
    u128::from_be_bytes(*prefix)
}
