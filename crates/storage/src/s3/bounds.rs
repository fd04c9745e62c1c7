//! Bounds of a listing, because a server may send pages without end.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_128;

use super::failure::{Failure, Meaning};

/// The base of the maximum duration of a listing, in nanoseconds.
const BASE_NS: u64 = 300 * 1_000_000_000;
/// The increase of the maximum duration per name, in nanoseconds.
const NAME_NS: u64 = 10_000_000;
/// Maximum number of pages without a name.
const EMPTY_PAGES_MAX: u32 = 100;

/// The pages of a listing that were received.
#[derive(Debug)]
pub(super) struct ListBounds {
    count_max: usize,
    began_ns: u64,
    count: usize,
    empty_count: u32,
    /// Hashes of the continuation tokens that were received.
    tokens: HashSet<u128>,
}

impl ListBounds {
    /// Creates the bounds of a listing of at most `count_max` names that begins at `now_ns`.
    pub(super) fn new(count_max: usize, now_ns: u64) -> ListBounds {
        let (count, empty_count, tokens) = (0, 0, HashSet::new());
        ListBounds { count_max, began_ns: now_ns, count, empty_count, tokens }
    }

    /// Counts a page of `count` names that was received at `now_ns` and refers to the next one by
    /// `token`.
    ///
    /// # Errors
    ///
    /// Returns a final failure if the listing has more names than allowed, refers to a page twice,
    /// has too many pages without a name, or takes too long.
    pub(super) fn page(&mut self, count: usize, token: &str, now_ns: u64) -> Result<(), Failure> {
        self.count = self.count.saturating_add(count);
        self.empty_count += u32::from(count == 0);
        let allowed_ns = BASE_NS.saturating_add(NAME_NS.saturating_mul(self.count as u64));
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        let text = if !self.tokens.insert(xxh3_128(token.as_bytes())) {
            "the listing is circular: the same continuation token came twice".to_owned()
        } else if self.count > self.count_max {
            format!("the listing has no end: more than {} names", self.count_max)
        } else if self.empty_count > EMPTY_PAGES_MAX {
            format!("the listing has no end: more than {EMPTY_PAGES_MAX} pages without a name")
        } else if elapsed_ns > allowed_ns {
            let elapsed_s = elapsed_ns / 1_000_000_000;
            format!("the listing has no end: {} names in {elapsed_s} s", self.count)
        } else {
            return Ok(());
        };
        Err(Failure { meaning: Meaning::Final, ..Failure::passing(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<(), Failure>) -> String {
        let failure = result.expect_err("a bound is passed");
        assert_eq!(failure.meaning, Meaning::Final, "it is not asked for again");
        failure.text
    }

    #[test]
    fn listing_that_passes_a_bound_ends() {
        let mut names = ListBounds::new(1500, 0);
        assert!(names.page(1000, "a", 1).is_ok(), "below the maximum");
        assert!(text(names.page(1000, "b", 2)).contains("more than 1500 names"));
        let mut circle = ListBounds::new(usize::MAX, 0);
        assert!(circle.page(1, "a", 1).is_ok() && circle.page(1, "b", 1).is_ok(), "two pages");
        assert!(text(circle.page(1, "a", 1)).contains("token came twice"));
        let mut empty = ListBounds::new(usize::MAX, 0);
        for page in 0..EMPTY_PAGES_MAX {
            assert!(empty.page(0, &page.to_string(), 1).is_ok(), "page {page}");
        }
        assert!(text(empty.page(0, "x", 1)).contains("without a name"));
        let mut slow = ListBounds::new(usize::MAX, 7);
        assert!(slow.page(1, "a", 7 + BASE_NS + NAME_NS).is_ok(), "just in time");
        assert!(text(slow.page(1, "b", 7 + BASE_NS + 3 * NAME_NS)).contains("2 names in"));
    }
}
