//! The chunks of the run in the order in which they came.

use std::collections::{HashMap, VecDeque};

use crate::format::edges::Edges;
use crate::format::fingerprint::Fingerprint;
use crate::format::recipe::Segment;

/// Maximum number of chunks that are remembered.
const COUNT_MAX: usize = 64 * 1024;

/// A chunk of the run.
#[derive(Clone, Copy, Debug)]
struct StreamChunk {
    fingerprint: Fingerprint,
    len: u32,
    /// Set if the chunk was new.
    edges: Option<Edges>,
}

/// The chunks with one edge.
#[derive(Clone, Copy, Debug)]
struct WithEdge {
    /// The number of the last one.
    last: u64,
    count: u32,
}

/// The last chunks of the run, known and new ones, in the order in which they came. They are
/// numbered from 0.
#[derive(Debug, Default)]
pub(in crate::write) struct RecentStream {
    chunks: VecDeque<StreamChunk>,
    /// The number of the first chunk in `chunks`.
    first: u64,
    /// Maps a hint to the number of the last chunk with it.
    by_hint: HashMap<u64, u64>,
    heads: HashMap<u32, WithEdge>,
    tails: HashMap<u32, WithEdge>,
}

fn insert(map: &mut HashMap<u32, WithEdge>, edge: u32, number: u64) {
    let with_edge = map.entry(edge).or_insert(WithEdge { last: number, count: 0 });
    with_edge.last = number;
    with_edge.count = with_edge.count.saturating_add(1);
}

fn remove(map: &mut HashMap<u32, WithEdge>, edge: u32, number: u64) {
    if map.get(&edge).is_some_and(|with_edge| with_edge.last == number) {
        map.remove(&edge);
    }
}

impl RecentStream {
    /// Adds a chunk, with its edges if it is new.
    pub(in crate::write) fn push(
        &mut self,
        fingerprint: Fingerprint,
        len: u32,
        edges: Option<Edges>,
    ) {
        let number = self.first + self.chunks.len() as u64;
        self.by_hint.insert(fingerprint.hint(), number);
        if let Some([head, tail]) = edges {
            insert(&mut self.heads, head, number);
            insert(&mut self.tails, tail, number);
        }
        // Dropped before, so that the list never needs more room.
        if self.chunks.len() >= COUNT_MAX {
            self.drop_first();
        }
        self.chunks.push_back(StreamChunk { fingerprint, len, edges });
    }

    fn drop_first(&mut self) {
        let Some(chunk) = self.chunks.pop_front() else { return };
        let hint = chunk.fingerprint.hint();
        if self.by_hint.get(&hint) == Some(&self.first) {
            self.by_hint.remove(&hint);
        }
        if let Some([head, tail]) = chunk.edges {
            remove(&mut self.heads, head, self.first);
            remove(&mut self.tails, tail, self.first);
        }
        self.first += 1;
    }

    fn get(&self, number: u64) -> Option<&StreamChunk> {
        self.chunks.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Returns the fingerprint of a chunk.
    pub(in crate::write) fn fingerprint(&self, number: u64) -> Option<&Fingerprint> {
        self.get(number).map(|chunk| &chunk.fingerprint)
    }

    /// Returns `true` if there is a chunk of this number that may be readable: a new one only if
    /// `is_recent` returns `true` for it.
    pub(in crate::write) fn is_available(
        &self,
        number: u64,
        is_recent: impl FnOnce(&Fingerprint) -> bool,
    ) -> bool {
        let chunk = self.get(number);
        chunk.is_some_and(|chunk| chunk.edges.is_none() || is_recent(&chunk.fingerprint))
    }

    /// Returns the number of the last occurrence of a chunk.
    pub(in crate::write) fn find(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let number = *self.by_hint.get(&fingerprint.hint())?;
        (self.fingerprint(number) == Some(fingerprint)).then_some(number)
    }

    /// Returns the number of a new chunk with one of these edges: the last one with that edge which
    /// fewer chunks have.
    pub(in crate::write) fn with_edges(&self, edges: Edges) -> Option<u64> {
        match (self.heads.get(&edges[0]), self.tails.get(&edges[1])) {
            (Some(head), Some(tail)) if tail.count < head.count => Some(tail.last),
            (Some(head), _) => Some(head.last),
            (None, tail) => tail.map(|tail| tail.last),
        }
    }

    /// Returns the segments from chunk `at` on, and `before_count` chunks before it, at most
    /// `count_max` in total. Also returns the length of those before it.
    pub(in crate::write) fn around(
        &self,
        at: u64,
        before_count: u64,
        count_max: usize,
    ) -> (Vec<Segment>, u64) {
        let first = at.saturating_sub(before_count).max(self.first);
        let skipped = usize::try_from(first - self.first).unwrap_or(usize::MAX);
        let mut before_len = 0;
        let mut segments = Vec::new();
        for (chunk, number) in self.chunks.iter().skip(skipped).zip(first..).take(count_max) {
            let length = u64::from(chunk.len);
            segments.push(Segment::Chunk { fingerprint: chunk.fingerprint, offset: 0, length });
            before_len += if number < at { length } else { 0 };
        }
        (segments, before_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(number: u8) -> Fingerprint {
        Fingerprint([number; 32])
    }

    #[test]
    fn last_occurrence_counts() {
        let mut stream = RecentStream::default();
        for number in [1, 2, 1, 3] {
            stream.push(fingerprint(number), 10, None);
        }
        assert_eq!(stream.find(&fingerprint(1)), Some(2));
        assert_eq!(stream.find(&fingerprint(3)), Some(3));
        assert_eq!(stream.find(&fingerprint(4)), None);
        let (segments, before_len) = stream.around(2, 1, 2);
        let found: Vec<_> = segments
            .iter()
            .map(|segment| match segment {
                Segment::Chunk { fingerprint, .. } => fingerprint.0[0],
                other => panic!("not a chunk: {other:?}"),
            })
            .collect();
        assert_eq!((found, before_len), (vec![2, 1], 10));
        assert_eq!(stream.around(4, 16, 9).0.len(), 4, "behind the last one");
    }

    #[test]
    fn rarer_edge_counts() {
        let mut stream = RecentStream::default();
        for (number, edges) in (0..).zip([[10, 20], [10, 30], [10, 30], [40, 20]]) {
            stream.push(fingerprint(number), 10, Some(edges));
        }
        assert_eq!(stream.with_edges([10, 30]), Some(2), "the tail is rarer");
        assert_eq!(stream.with_edges([10, 99]), Some(2), "the head alone");
        assert_eq!(stream.with_edges([98, 20]), Some(3), "the tail alone");
        assert_eq!(stream.with_edges([10, 20]), Some(3), "fewer chunks have the tail");
        assert_eq!(stream.with_edges([20, 10]), None, "a head is no tail");
    }

    /// Of more chunks than the limit, the first ones are forgotten.
    #[test]
    fn old_chunks_are_forgotten() {
        let mut stream = RecentStream::default();
        let of = |number: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            Fingerprint(bytes)
        };
        let count = u32::try_from(COUNT_MAX).expect("it fits") + 2;
        for number in 0..count {
            stream.push(of(number), 1, Some([number, number]));
        }
        assert_eq!((stream.find(&of(1)), stream.with_edges([1, 1])), (None, None));
        assert_eq!((stream.find(&of(2)), stream.with_edges([2, 2])), (Some(2), Some(2)));
        assert_eq!(stream.heads.len(), COUNT_MAX, "edges are forgotten as well");
        assert_eq!(stream.around(0, 16, 3).0.len(), 3, "from the first one that is left");
    }
}
