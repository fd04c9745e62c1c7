//! The times at which containers were read, so that checks of a part begin with those that were not
//! read for longest.
//!
//! Reading proceeds in rounds, in each of which every container is read once. Checks of a share
//! keep pace: after n checks of 5 %, n times 5 % of the data that exists by then have been read in
//! this round, so that twenty checks make a round, whatever was backed up in between. New
//! containers were never read, and come first.
//!
//! Losing this information costs only time: a client without it has to read everything again.

use std::collections::{BTreeMap, HashSet};

use cutpoint_storage::{Error, Result};

use crate::crypto::RepositoryId;
use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// The whole of a round, in millionths.
const WHOLE: u32 = 1_000_000;

/// The portion of the containers that one check reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// Everything.
    All,
    /// A share of the stored data in millionths; somewhat more is read, because containers are read
    /// completely.
    Share(u32),
    /// A maximum number of bytes; at least one container is read.
    Bytes(u64),
}

/// The round and the time of the last read of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastRead {
    round: u32,
    time_ns: i64,
}

/// The read times of all containers, as remembered by one client of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The number of the current round, from 1.
    round: u32,
    /// The completed part of the round, in millionths.
    done: u32,
    last_reads: BTreeMap<(Class, PartName), LastRead>,
}

/// The part of the containers that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverageTotals {
    /// Number of containers that have been read.
    pub container_count: u64,
    /// The total size of these containers in bytes.
    pub bytes: u64,
    /// The oldest of the read times, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
}

/// A container and its length in bytes.
type Container = (Class, PartName, u64);

impl Coverage {
    fn is_in_round(&self, container: &Container) -> bool {
        let read = self.last_reads.get(&(container.0, container.1));
        read.is_some_and(|read| read.round == self.round)
    }

    /// Returns the containers that a check of `portion` has to read. Begins another round if the
    /// last one is complete.
    pub(super) fn choose(
        &mut self,
        portion: Portion,
        containers: &[Container],
    ) -> HashSet<(Class, PartName)> {
        let is_done = match portion {
            Portion::Share(_) => self.done >= WHOLE,
            Portion::All | Portion::Bytes(_) => {
                containers.iter().all(|container| self.is_in_round(container))
            }
        };
        if is_done || self.round == 0 {
            self.round = self.round.saturating_add(1);
            self.done = 0;
        }
        let mut waiting: Vec<&Container> =
            containers.iter().filter(|container| !self.is_in_round(container)).collect();
        waiting
            .sort_by_key(|(class, part, _)| (self.last_reads.get(&(*class, *part)), *class, *part));
        let all: u64 = containers.iter().map(|(_, _, len)| len).sum();
        let mut read: u64 = all - waiting.iter().map(|(_, _, len)| len).sum::<u64>();
        let before = read;
        let wanted = |share: u32, read: u64| {
            let target = self.done.saturating_add(share).min(WHOLE);
            // Containers without a length are read with the last share.
            target == WHOLE
                || u128::from(read) * u128::from(WHOLE) < u128::from(all) * u128::from(target)
        };
        let mut chosen = HashSet::new();
        for (class, part, len) in waiting {
            let fits = match portion {
                Portion::All => true,
                Portion::Share(share) => wanted(share, read),
                Portion::Bytes(bytes) => chosen.is_empty() || read - before + len <= bytes,
            };
            if !fits {
                break;
            }
            read += len;
            chosen.insert((*class, *part));
        }
        if portion == Portion::All {
            chosen.extend(containers.iter().map(|(class, part, _)| (*class, *part)));
        }
        chosen
    }

    /// Notes that a container was read.
    pub(super) fn note(&mut self, class: Class, part: PartName, time_ns: i64) {
        self.last_reads.insert((class, part), LastRead { round: self.round, time_ns });
    }

    /// Notes that a check of `portion` has read everything that it had to read. A check that was
    /// stopped earlier leaves the rest to the next one.
    pub(super) fn finish(&mut self, portion: Portion, containers: &[Container]) {
        let there: HashSet<_> = containers.iter().map(|(class, part, _)| (*class, *part)).collect();
        self.last_reads.retain(|container, _| there.contains(container));
        self.done = match portion {
            Portion::All => WHOLE,
            Portion::Share(share) => self.done.saturating_add(share).min(WHOLE),
            Portion::Bytes(_) => {
                let all: u64 = containers.iter().map(|(_, _, len)| len).sum();
                let read = containers.iter().filter(|container| self.is_in_round(container));
                let read: u64 = read.map(|(_, _, len)| len).sum();
                let share = u128::from(read) * u128::from(WHOLE) / u128::from(all.max(1));
                self.done.max(u32::try_from(share).unwrap_or(WHOLE))
            }
        };
    }

    /// Returns the time of the last read of a container; `None` if it was never read.
    pub(super) fn last_read_ns(&self, class: Class, part: PartName) -> Option<i64> {
        self.last_reads.get(&(class, part)).map(|read| read.time_ns)
    }

    /// Returns the part of `containers` that was read.
    pub(super) fn covered(&self, containers: &[Container]) -> CoverageTotals {
        let mut covered = CoverageTotals::default();
        for (class, part, len) in containers {
            let Some(read) = self.last_reads.get(&(*class, *part)) else { continue };
            covered.container_count += 1;
            covered.bytes += len;
            let since = covered.since_ns.unwrap_or(read.time_ns);
            covered.since_ns = Some(since.min(read.time_ns));
        }
        covered
    }

    /// Encodes the read times as a file: `CutPread`, the repository's id 16, round 4, millionths
    /// done 4, then 29 bytes per container (class 1, name 16, round 4, time 8) and the BLAKE3 hash
    /// of all that. Numbers are little-endian. The file is not part of a repository.
    pub fn encode(&self, repository: RepositoryId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_LEN + self.last_reads.len() * READ_LEN + HASH_LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&repository.0);
        bytes.extend_from_slice(&self.round.to_le_bytes());
        bytes.extend_from_slice(&self.done.to_le_bytes());
        for ((class, part), read) in &self.last_reads {
            bytes.push(u8::from(*class == Class::Meta));
            bytes.extend_from_slice(&part.to_bytes());
            bytes.extend_from_slice(&read.round.to_le_bytes());
            bytes.extend_from_slice(&read.time_ns.to_le_bytes());
        }
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    /// Decodes the read times; the inverse of [`Coverage::encode`].
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the bytes are damaged, or belong to another repository.
    pub fn decode(repository: RepositoryId, bytes: &[u8]) -> Result<Coverage> {
        let bad = || Error::corrupt("", "content differs from what was written");
        let (body, hash) = bytes.split_last_chunk::<HASH_LEN>().ok_or_else(bad)?;
        let (head, reads) = body.split_at_checked(HEAD_LEN).ok_or_else(bad)?;
        let (reads, rest) = reads.as_chunks::<READ_LEN>();
        let own = head.starts_with(MAGIC) && head[MAGIC.len()..].starts_with(&repository.0);
        if !own || !rest.is_empty() || blake3::hash(body) != *hash {
            return Err(bad());
        }
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map_err(|_| bad());
        let mut coverage = Coverage {
            round: number(&head[HEAD_LEN - 8..HEAD_LEN - 4])?,
            done: number(&head[HEAD_LEN - 4..])?,
            last_reads: BTreeMap::new(),
        };
        for read in reads {
            let class = if read[0] == 0 { Class::Data } else { Class::Meta };
            let part = read[1..17].try_into().map(PartName::from_bytes).map_err(|_| bad())?;
            let time_ns = read[21..].try_into().map(i64::from_le_bytes).map_err(|_| bad())?;
            let read = LastRead { round: number(&read[17..21])?, time_ns };
            coverage.last_reads.insert((class, part), read);
        }
        Ok(coverage)
    }
}

const MAGIC: &[u8; 8] = b"CutPread";
const HEAD_LEN: usize = 8 + 16 + 4 + 4;
const READ_LEN: usize = 1 + 16 + 4 + 8;
const HASH_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TicketId;

    fn container(number: u32, len: u64) -> Container {
        (Class::Data, PartName { ticket: TicketId([1; 12]), count: number }, len)
    }

    /// Reads `portion`, and returns the numbers of the containers that were read.
    fn read(
        coverage: &mut Coverage,
        portion: Portion,
        containers: &[Container],
        time_ns: i64,
    ) -> Vec<u32> {
        let chosen = coverage.choose(portion, containers);
        for (class, part) in &chosen {
            coverage.note(*class, *part, time_ns);
        }
        coverage.finish(portion, containers);
        let mut numbers: Vec<u32> = chosen.iter().map(|(_, part)| part.count).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Twenty checks of 5 % read everything once, whatever the sizes, and whatever is added in
    /// between.
    #[test]
    fn twenty_shares_of_five_percent_read_everything_once() {
        for (count, growth) in [(1, 0), (3, 0), (20, 0), (1000, 0), (7, 1), (100, 3), (100, 40)] {
            let len = |number: u32| u64::from(number * 7919 % 1000) * 20_000;
            let mut containers: Vec<_> = (0..count).map(|n| container(n, len(n))).collect();
            let mut coverage = Coverage::default();
            for round in 1..4 {
                let mut all = Vec::new();
                for part in 0..20 {
                    let next = u32::try_from(containers.len()).expect("few");
                    containers.extend((next..next + growth).map(|n| container(n, len(n))));
                    all.extend(read(&mut coverage, Portion::Share(50_000), &containers, part));
                    // Encoding and decoding in between changes nothing.
                    let id = RepositoryId([5; 16]);
                    let again = Coverage::decode(id, &coverage.encode(id)).expect("it is whole");
                    assert_eq!(again, coverage, "written and read");
                }
                all.sort_unstable();
                let expected: Vec<_> = containers.iter().map(|(_, part, _)| part.count).collect();
                assert_eq!(all, expected, "{count} and {growth} more each time, round {round}");
            }
        }
    }

    #[test]
    fn container_read_longest_ago_comes_first() {
        let mut coverage = Coverage::default();
        let mut containers: Vec<_> = (0..4).map(|n| container(n, 100)).collect();
        let bytes = Portion::Bytes(200);
        assert_eq!(read(&mut coverage, bytes, &containers, 1), [0, 1]);
        assert_eq!(coverage.done, WHOLE / 2, "of the round");
        containers.push(container(9, 100));
        assert_eq!(read(&mut coverage, bytes, &containers, 2), [2, 3], "never read, by name");
        assert_eq!(read(&mut coverage, bytes, &containers, 3), [9], "the end of the round");
        assert_eq!(read(&mut coverage, bytes, &containers, 4), [0, 1], "the oldest");
        let covered = coverage.covered(&containers);
        assert_eq!(covered, CoverageTotals { container_count: 5, bytes: 500, since_ns: Some(2) });
        containers.push(container(10, 5000));
        assert_eq!(read(&mut coverage, bytes, &containers, 5), [10], "new, though it is large");
        // A container that disappears and comes back counts as unread.
        let gone = containers.remove(0);
        assert_eq!(read(&mut coverage, bytes, &containers, 6), [2, 3]);
        containers.push(gone);
        assert_eq!(read(&mut coverage, Portion::Bytes(100), &containers, 7), [0]);
        assert_eq!(read(&mut coverage, Portion::All, &containers, 8).len(), 6, "all of them");
    }

    #[test]
    fn stopped_check_leaves_rest_to_next() {
        let containers: Vec<_> = (0..10).map(|n| container(n, 100)).collect();
        let mut coverage = Coverage::default();
        let chosen = coverage.choose(Portion::Share(500_000), &containers);
        assert_eq!(chosen.len(), 5);
        coverage.note(Class::Data, containers[0].1, 1);
        assert_eq!(read(&mut coverage, Portion::Share(500_000), &containers, 2), [1, 2, 3, 4]);
        assert_eq!(read(&mut coverage, Portion::Share(500_000), &containers, 3), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn damaged_encoding_is_rejected() {
        let mut coverage = Coverage::default();
        read(&mut coverage, Portion::All, &[container(1, 5), container(2, 5)], 7);
        let id = RepositoryId([5; 16]);
        let bytes = coverage.encode(id);
        assert!(Coverage::decode(RepositoryId([6; 16]), &bytes).is_err(), "of another repository");
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            assert!(Coverage::decode(id, &flipped).is_err(), "bit of byte {place}");
            assert!(Coverage::decode(id, &bytes[..place]).is_err(), "cut at {place}");
        }
    }
}
