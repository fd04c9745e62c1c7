//! Restores the order of numbered items that several threads have processed.

use std::collections::BTreeMap;

/// Items that are numbered from 0 on, arrive in any order, and are processed in ascending order.
#[derive(Debug)]
pub(super) struct InOrder<T> {
    /// The items that have arrived before their turn.
    waiting: BTreeMap<u64, T>,
    next: u64,
    /// The number of items; `None` until it is known.
    count: Option<u64>,
}

impl<T> InOrder<T> {
    pub(super) fn new() -> InOrder<T> {
        InOrder { waiting: BTreeMap::new(), next: 0, count: None }
    }

    pub(super) fn insert(&mut self, number: u64, item: T) {
        self.waiting.insert(number, item);
    }

    /// Returns the next item, if it has arrived.
    pub(super) fn next(&mut self) -> Option<T> {
        let item = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(item)
    }

    /// Records that there are `count` items in total.
    pub(super) fn end_at(&mut self, count: u64) {
        self.count = Some(count);
    }

    /// Returns `true` if all items have been returned.
    pub(super) fn is_complete(&self) -> bool {
        self.count.is_some_and(|count| self.next >= count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_return_in_order_until_the_count_is_reached() {
        let mut items = InOrder::new();
        items.insert(1, 'b');
        assert_eq!(items.next(), None, "the first one is missing");
        items.insert(0, 'a');
        assert_eq!((items.next(), items.next(), items.next()), (Some('a'), Some('b'), None));
        assert!(!items.is_complete(), "the count is unknown");
        items.end_at(2);
        assert!(items.is_complete());
    }
}
