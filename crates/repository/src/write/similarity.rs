//! Finds old chunks that begin or end as a new one does, for files without a previous version.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use cutpoint_storage::ObjectKind;

use crate::format::edges::{EDGES_LEN, Edges, SimilarityObject};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::repo::repository::Repository;
use crate::write::references::References;

/// Maximum number of remembered edges, heads and tails together: 12 MiB. Of more chunks than that,
/// an evenly spread part is remembered.
pub(super) const EDGES_MAX: usize = 3 << 19;
/// Maximum total size of similarity objects to read, in bytes, beginning with those of the latest
/// writers.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of chunks with the same edge among which a choice is made.
const CHOICE_MAX: usize = 8;

/// Locations of chunks, indexed by head and tail: 16 bytes for each chunk.
#[derive(Debug, Default)]
pub(super) struct SimilarityIndex {
    /// Edges with the numbers of their chunks, sorted. The lowest bit of an edge tells a tail from
    /// a head.
    edges: Vec<(u32, u32)>,
    /// Containers with the number of their first chunk. The numbers count all chunks with edges.
    containers: Vec<(u32, PartName)>,
}

/// Returns the key of an edge: its hash, tagged as head or tail.
fn key(edge: u32, is_tail: bool) -> u32 {
    edge & !1 | u32::from(is_tail)
}

/// Returns the containers of file chunks to which delta chunks may refer.
pub(super) fn known_containers(references: &References<'_>) -> HashSet<PartName> {
    let containers = references.index().containers().into_iter();
    let own = references.own();
    containers
        .filter(|container| container.class == Class::Data && container.name.ticket != own)
        .map(|container| container.name)
        .collect()
}

/// Returns the similarity objects of the writers of these containers with their lengths, up to the
/// total size to read, beginning with the latest writers. `times` has the times at which writers
/// ended.
pub(super) fn similarity_objects(
    repository: &Repository,
    known: &HashSet<PartName>,
    times: &BTreeMap<TicketId, i64>,
) -> Vec<(PartName, u64)> {
    let writers: HashSet<TicketId> = known.iter().map(|name| name.ticket).collect();
    let listed = repository.storage().list(ObjectKind::Similarity.folder()).unwrap_or_default();
    let mut objects: Vec<(Reverse<i64>, PartName, u64)> = listed
        .into_iter()
        .filter_map(|(path, len)| match ObjectName::parse(&path) {
            Ok(ObjectName::Similarity(name)) if writers.contains(&name.ticket) => {
                let time = times.get(&name.ticket).copied().unwrap_or(i64::MIN);
                Some((Reverse(time), name, len))
            }
            _ => None,
        })
        .collect();
    objects.sort_unstable();
    let mut left = READ_BYTES_MAX;
    objects.retain(|(_, _, len)| {
        let is_read = *len <= left;
        left = left.saturating_sub(*len);
        is_read
    });
    objects.into_iter().map(|(_, name, len)| (name, len)).collect()
}

impl SimilarityIndex {
    /// Loads the edges of the containers to which delta chunks may refer. `times` has the times at
    /// which writers ended. Similarity objects that are missing or unreadable are skipped.
    pub(super) fn load(
        references: &References<'_>,
        times: &BTreeMap<TicketId, i64>,
        edges_max: usize,
    ) -> SimilarityIndex {
        let repository = references.repository();
        let known = known_containers(references);
        let objects = similarity_objects(repository, &known, times);
        let len: u64 = objects.iter().map(|(_, len)| len).sum();
        // An estimate, slightly too high because of what surrounds the edges. If there are too many
        // chunks, an evenly spread part is kept.
        let chunk_count = len / EDGES_LEN as u64;
        let kept_count = chunk_count.min(edges_max as u64 / 2);
        let kept_before = |number: u32| u64::from(number) * kept_count / chunk_count.max(1);
        let mut similarity = SimilarityIndex::default();
        let mut next = 0_u32;
        for (name, _) in objects {
            let name = ObjectName::Similarity(name);
            let Ok(object) = repository.read(name, SimilarityObject::decode) else { continue };
            for container in object.containers {
                if !known.contains(&container.container) {
                    continue;
                }
                similarity.containers.push((next, container.container));
                for edges in container.edges {
                    if kept_before(next) < kept_before(next.saturating_add(1)) {
                        similarity.edges.push((key(edges[0], false), next));
                        similarity.edges.push((key(edges[1], true), next));
                    }
                    next = next.saturating_add(1);
                }
            }
        }
        similarity.edges.sort_unstable();
        similarity
    }

    /// Returns the location of a chunk with one of these edges: its container, and the number of
    /// chunks with edges before it there.
    pub(super) fn find(&self, edges: Edges) -> Option<(PartName, usize)> {
        let of = |key| {
            let start = self.edges.partition_point(|(edge, _)| *edge < key);
            let same = self.edges[start..].iter().take_while(move |(edge, _)| *edge == key);
            same.map(|(_, number)| *number).take(CHOICE_MAX).collect::<Vec<u32>>()
        };
        let (heads, tails) = (of(key(edges[0], false)), of(key(edges[1], true)));
        // A chunk with both edges is preferred, then the edge that fewer chunks have. Among equals
        // the newest comes first.
        let both = heads.iter().find(|number| tails.contains(number));
        let tails_say_more = !tails.is_empty() && (heads.is_empty() || tails.len() < heads.len());
        let number = *both.or(if tails_say_more { tails.first() } else { heads.first() })?;
        let index = self.containers.partition_point(|(first, _)| *first <= number);
        let (first, container) = self.containers[index.checked_sub(1)?];
        Some((container, (number - first) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    #[test]
    fn find_prefers_the_rarer_edge() {
        let mut edges = Vec::new();
        // Three chunks have the same head; the second and the third have the same tail.
        for (number, [head, tail]) in (0..).zip([[10, 20], [10, 30], [10, 30], [40, 20]]) {
            edges.push((key(head, false), number));
            edges.push((key(tail, true), number));
        }
        edges.sort_unstable();
        let similarity = SimilarityIndex { edges, containers: vec![(0, part(0)), (2, part(1))] };
        assert_eq!(similarity.find([10, 30]), Some((part(0), 1)), "both, the first that has them");
        assert_eq!(similarity.find([10, 99]), Some((part(0), 0)), "the head alone");
        assert_eq!(similarity.find([98, 30]), Some((part(0), 1)), "the tail alone");
        assert_eq!(similarity.find([40, 99]), Some((part(1), 1)), "in the second container");
        assert_eq!(similarity.find([40, 30]), Some((part(1), 1)), "fewer begin so than end so");
        assert_eq!(similarity.find([20, 10]), None, "a head is no tail");
        assert_eq!(SimilarityIndex::default().find([10, 20]), None, "nothing is known");
    }
}
