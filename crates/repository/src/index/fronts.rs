//! A cache of the fronts of small containers, which have all their regions.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// The maximum size of the cache, in bytes.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A bounded cache of fronts. The oldest one is dropped first.
#[derive(Debug, Default)]
pub(super) struct FrontCache {
    fronts: HashMap<(Class, PartName), Bytes>,
    order: VecDeque<(Class, PartName)>,
    bytes: usize,
}

impl FrontCache {
    pub(super) fn get(&self, class: Class, name: PartName) -> Option<Bytes> {
        self.fronts.get(&(class, name)).cloned()
    }

    pub(super) fn insert(&mut self, class: Class, name: PartName, front: Bytes) {
        let len = front.len();
        if let Some(before) = self.fronts.insert((class, name), front) {
            self.bytes -= before.len();
        } else {
            self.order.push_back((class, name));
        }
        self.bytes += len;
        while self.bytes > BYTES_MAX
            && let Some((class, name)) = self.order.pop_front()
        {
            self.take(class, name);
        }
    }

    /// Drops the front of a container. Returns `true` if there was one.
    pub(super) fn remove(&mut self, class: Class, name: PartName) -> bool {
        self.order.retain(|each| *each != (class, name));
        self.take(class, name)
    }

    fn take(&mut self, class: Class, name: PartName) -> bool {
        let front = self.fronts.remove(&(class, name));
        self.bytes -= front.as_ref().map_or(0, Bytes::len);
        front.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TicketId;

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    #[test]
    fn cache_over_limit_drops_oldest_front_first() {
        let mut fronts = FrontCache::default();
        let front = Bytes::from(vec![7; BYTES_MAX / 3]);
        for number in 0..5 {
            fronts.insert(Class::Meta, part(number), front.clone());
        }
        let kept: Vec<bool> =
            (0..5).map(|number| fronts.get(Class::Meta, part(number)).is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true]);
        assert_eq!(fronts.bytes, 3 * front.len());
        assert!(fronts.get(Class::Data, part(4)).is_none(), "of another class");
        fronts.insert(Class::Meta, part(4), Bytes::from_static(b"another"));
        assert_eq!(fronts.bytes, 2 * front.len() + 7, "it replaces the first");
        assert!(fronts.remove(Class::Meta, part(4)) && !fronts.remove(Class::Meta, part(4)));
        assert_eq!((fronts.bytes, fronts.order.len()), (2 * front.len(), 2));
    }
}
