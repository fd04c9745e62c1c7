//! BURST as a mode of the repository: the decisions of the paper's rule, through repositories, and
//! their state after further backups, prunes and losses.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::backup::{init_with, open};
use cutpoint_burst::Deduplicator;
use cutpoint_delta::burst::{Options, Tau};
use cutpoint_repository::format::bursts::BurstHints;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::edges::SimilarityObject;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{AtOnce, SweepOptions, Sweeper};
use cutpoint_repository::read::StoredBurst;
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::write::{
    BurstStatistics, Bursts, DeltaStrategy, Inline, RecipeWriter, TreeWriter,
};
use cutpoint_repository::{
    Class, Entry, EntryKind, Fingerprint, Index, ObjectName, Purpose, Reader, Repository, Scope,
    Snapshot, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Error, Memory, ObjectKind, Storage};
use cutpoint_testing::SplitMix64;
use proptest::prelude::*;

/// A quarter of a chunk, and one burst for each reference chunk: the example of section III-C.
const QUARTER_ONCE: Options = Options { tau: Tau::Fraction(4), c_max: 1, ..Options::BURST };

/// Number of bytes that stand for one letter of the paper's examples.
const LETTER_LEN: usize = 100;

/// Stretches of bytes for the letters, equal for equal letters.
fn letters(text: &str) -> Vec<u8> {
    text.bytes().flat_map(|letter| SplitMix64::bytes(u64::from(letter), LETTER_LEN)).collect()
}

struct Store {
    storage: Arc<dyn Storage>,
    repository: Arc<Repository>,
}

impl Store {
    fn new(options: Options) -> Store {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let mut repository =
            init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
        let mut config = repository.config().clone();
        config.set_burst(Some(options));
        repository.set_config(config).expect("memory takes it");
        let repository = open(storage.clone(), 1).expect("it opens");
        assert_eq!(repository.config().burst(), Some(options), "it is kept");
        Store { storage, repository }
    }

    /// Backs up one stream of chunks. Publishes after each chunk if `publish` is set, and remembers
    /// at most the given number of the writer's own bytes.
    fn backup_within(
        &self,
        chunks: &[Vec<u8>],
        publish: bool,
        recent_bytes_max: usize,
    ) -> (TicketId, BurstStatistics) {
        let repository = &self.repository;
        let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
        let (view, ticket) = (writer.view().clone(), writer.ticket());
        let mut inline = Inline::new(writer, Verify::All).expect("it opens");
        let index = inline.index().clone();
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
        let options = repository.config().burst().expect("it is set");
        let bursts = Bursts::new(options, &reader, &index, ticket);
        let mut bursts = bursts.with_recent_bytes_max(recent_bytes_max);
        let mut recipe = RecipeWriter::new("fixed".to_owned());
        for chunk in chunks {
            let (fingerprint, _) = inline.store_similar(chunk, &mut bursts).expect("it is stored");
            let length = chunk.len() as u64;
            recipe
                .push(Segment::Chunk { fingerprint, offset: 0, length }, &mut inline)
                .expect("taken");
            if publish {
                inline.publish().expect("memory takes it");
            }
        }
        inline.record(bursts.record());
        let mut file = Entry::new(b"stream", EntryKind::File);
        file.size = recipe.size();
        file.content = recipe.finish(&mut inline).expect("it is stored");
        let mut tree = TreeWriter::new();
        tree.push(&file, repository.keys(), &mut inline).expect("it is stored");
        let root = tree.finish(&mut inline).expect("it is stored");
        let snapshot = Snapshot { root, ..Snapshot::empty() };
        inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("it ends");
        (ticket, bursts.statistics())
    }

    fn backup_with(&self, chunks: &[Vec<u8>], publish: bool) -> (TicketId, BurstStatistics) {
        self.backup_within(chunks, publish, usize::MAX)
    }

    fn backup(&self, chunks: &[Vec<u8>]) -> BurstStatistics {
        self.backup_with(chunks, false).1
    }

    fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.repository.keys().fingerprint(Class::Data, chunk)
    }

    fn reader(&self) -> Reader {
        let view = View::list(&self.repository).expect("it lists");
        let index = Index::open(self.repository.clone(), &view).expect("it opens");
        Reader::new(self.repository.clone(), Arc::new(index), view)
    }

    /// Returns the burst that a chunk is stored as, after the chunk was read back.
    fn burst(&self, chunk: &[u8]) -> Option<StoredBurst> {
        let (reader, name) = (self.reader(), self.fingerprint(chunk));
        let found = reader.index().find_where(Class::Data, &name, Scope::Read, |_| Ok(true));
        let location = found.expect("it finds").expect("it is there");
        let read = reader.read(Class::Data, &location).expect("it is read");
        assert_eq!(&*read, chunk, "what is read");
        let mut burst = None;
        let mut visit = |number, found: Option<StoredBurst>| {
            assert!(found.is_some(), "all delta chunks are bursts");
            if number == location.number {
                burst = found;
            }
        };
        reader.bursts(&location.container, &mut visit).expect("it is read");
        assert_eq!(burst.is_none(), location.is_full(), "a burst or a full chunk");
        burst
    }

    fn is_burst_on(&self, chunk: &[u8], reference: &[u8]) -> bool {
        self.burst(chunk).is_some_and(|burst| burst.reference == self.fingerprint(reference))
    }

    fn check(&self) {
        let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
        let report = check(&self.repository, &options, &()).expect("it is checked");
        assert_eq!((report.error_count, report.note_count), (0, 0), "{report:?}");
    }

    fn hints(&self) -> Vec<String> {
        let hints = self.storage.list(ObjectKind::Similarity.folder()).expect("memory lists");
        hints.into_iter().map(|(name, _)| name).collect()
    }

    fn forget(&self, taken: &[TicketId]) {
        forget(&self.repository, |_| Ok::<_, Error>(taken.to_vec())).expect("it is forgotten");
    }

    fn prune(&self, options: &PruneOptions) {
        prune(&self.repository, options, &(), |_| true).expect("it works");
        let options = SweepOptions {
            settle_ns: 0,
            at_once: AtOnce::Never,
            commit_ns: i64::MAX,
            end_others: true,
        };
        Sweeper::new(self.repository.clone(), options).step(&()).expect("it is swept");
    }
}

/// The paper's examples, in one backup and over two.
#[test]
fn examples_of_the_paper_are_reproduced() {
    let options = Options { tau: Tau::Bytes(LETTER_LEN), ..Options::BURST };
    for (reference, chunk, replaced, data_len) in [
        ("bandage", "badge", 2..5, 1),
        ("deduplication", "dedtion", 3..9, 0),
        ("word", "world", 3..3, 1),
    ] {
        for is_one_backup in [true, false] {
            let store = Store::new(options);
            let (old, new) = (letters(reference), letters(chunk));
            if is_one_backup {
                store.backup(&[old.clone(), new.clone()]);
            } else {
                store.backup(std::slice::from_ref(&old));
                store.backup(std::slice::from_ref(&new));
            }
            assert_eq!(store.burst(&old), None, "{reference}");
            let burst = store.burst(&new).expect("a burst");
            let lens = [burst.prefix_len, burst.data_len, burst.suffix_len, burst.suffix_at];
            let suffix_len = reference.len() - replaced.end;
            let letters = [replaced.start, data_len, suffix_len, replaced.end];
            let expected = letters.map(|count| u32::try_from(count * LETTER_LEN).expect("few"));
            // Different letters may by chance begin or end with the same byte.
            assert!(
                lens.iter().zip(expected).all(|(len, expected)| len.abs_diff(expected) < 3),
                "{lens:?}"
            );
            assert_eq!(burst.reference, store.fingerprint(&old));
            store.check();
        }
    }
}

/// Section III-C, 1): the second miss becomes the reference chunk of what follows, and the first
/// burst keeps the old one. This holds in one backup, in four, and if containers are named in
/// between.
#[test]
fn exhausted_reference_is_replaced() {
    let chunks = ["hhaaaaaa", "hhbbbbbb", "hhcccccc", "hhdddddd"].map(letters);
    for (backup_count, publish) in [(1, false), (1, true), (2, false), (4, false)] {
        let store = Store::new(QUARTER_ONCE);
        let mut sum = BurstStatistics::default();
        for chunks in chunks.chunks(4 / backup_count) {
            let statistics = store.backup_with(chunks, publish).1;
            sum.head.hit_count += statistics.head.hit_count;
            sum.head.exhausted_count += statistics.head.exhausted_count;
            sum.head.replaced_count += statistics.head.replaced_count;
        }
        let [reference, first, second, third] = &chunks;
        assert_eq!((store.burst(reference), store.burst(second)), (None, None), "full chunks");
        assert!(store.is_burst_on(first, reference), "the first burst keeps the old one");
        assert!(store.is_burst_on(third, second), "the second miss is the new one");
        let counts = [sum.head.hit_count, sum.head.exhausted_count, sum.head.replaced_count];
        assert_eq!(counts, [2, 1, 1], "{backup_count} backups");
        store.check();
    }
}

/// A burst is never a reference chunk, and a tail leads where a head does not.
#[test]
fn tail_leads_only_to_full_chunks() {
    let store = Store::new(Options { c_max: 3, ..QUARTER_ONCE });
    let chunks = ["hhaaaatt", "hhbbbbuu", "iiccccuu", "jjaaaatt"].map(letters);
    let statistics = store.backup(&chunks);
    assert!(store.is_burst_on(&chunks[1], &chunks[0]));
    assert_eq!(store.burst(&chunks[2]), None, "its tail is that of a burst");
    assert!(store.is_burst_on(&chunks[3], &chunks[0]), "found by its tail");
    assert_eq!((statistics.head.hit_count, statistics.tail.hit_count), (1, 1));
    let head = Store::new(Options { tau: Tau::Fraction(4), ..Options::HEAD });
    head.backup(&chunks[..1]);
    let statistics = head.backup(&chunks[3..]);
    assert_eq!(head.burst(&chunks[3]), None, "BURST-Head has no TailDT");
    assert_eq!(statistics.tail.entry_count, 0);
}

/// Behind an equal head, everything may be new and is still stored as a burst, unless the burst is
/// larger than the chunk.
#[test]
fn burst_is_stored_unless_larger_than_the_chunk() {
    let store = Store::new(QUARTER_ONCE);
    let chunks = ["hhaaaaaa", "hhbbbbbb"].map(letters);
    let tiny = [b"hhaaaaaa".to_vec(), b"hhbbbbbb".to_vec(), b"abc".to_vec()];
    let statistics = store.backup(&[&chunks[..], &tiny[..]].concat());
    assert_eq!(store.burst(&chunks[1]).map(|burst| burst.data_len), Some(600));
    assert_eq!(store.burst(&tiny[1]), None, "8 bytes");
    let counts = (statistics.refused_count, statistics.short_count, statistics.missing_count);
    assert_eq!(counts, (1, 1, 0), "too large, too short for tau, missing");
}

/// The paper's deletion: a prune keeps a reference chunk as long as bursts need it, and no longer.
/// Until then it serves new bursts. A deleted chunk leads nowhere.
#[test]
fn reference_stays_while_bursts_need_it() {
    let store = Store::new(Options { c_max: 200, ..QUARTER_ONCE });
    let old = letters("hhaaaaaa");
    let chunk = |seed| [&old[..400], &SplitMix64::bytes(seed, 400)].concat();
    // More bytes than fit into a container.
    let bursts: Vec<Vec<u8>> = (0..100).map(chunk).collect();
    let (first, _) = store.backup_with(std::slice::from_ref(&old), false);
    let (second, _) = store.backup_with(&bursts, false);
    store.forget(&[first]);
    store.prune(&PruneOptions::default());
    assert!(bursts.iter().all(|chunk| store.is_burst_on(chunk, &old)), "they can be read");
    let (third, _) = store.backup_with(&[chunk(101)], false);
    assert!(store.is_burst_on(&chunk(101), &old), "it still serves");
    store.check();
    store.forget(&[second, third]);
    store.prune(&PruneOptions::default());
    store.backup(&[chunk(102)]);
    assert_eq!(store.burst(&chunk(102)), None, "nothing is left");
    store.check();
}

/// A writer remembers what it has stored itself for a while. An older chunk is found by the next
/// backup, with the bursts on it.
#[test]
fn writer_forgets_full_chunks_beyond_its_memory() {
    let chunks =
        ["hhaaaaaa", "hhbbbbbb", "iicccccc", "jjdddddd", "hheeeeee", "hhffffff"].map(letters);
    let [old, new, .., last, third] = &chunks;
    for (recent_bytes_max, is_known) in [(2400, true), (2399, false)] {
        let options = Options { c_max: 2, ..QUARTER_ONCE };
        let store = Store::new(options);
        let (_, statistics) = store.backup_within(&chunks[..5], false, recent_bytes_max);
        assert!(store.is_burst_on(new, old));
        assert_eq!(store.is_burst_on(last, old), is_known, "three full chunks of 800 bytes");
        assert_eq!(statistics.missing_count, 0, "its entries went with it");
        let store = Store::new(options);
        store.backup_within(&chunks[..4], false, recent_bytes_max);
        store.backup(&chunks[4..]);
        assert!(store.is_burst_on(last, old), "the second burst");
        assert_eq!(store.burst(third), None, "there is no third");
    }
}

/// If that takes less, a prune stores bursts again as full chunks, and lets their reference chunk
/// go.
#[test]
fn single_burst_does_not_keep_a_container() {
    let store = Store::new(QUARTER_ONCE);
    let [old, new] = ["hhaaaaaa", "hhbbbbbb"].map(letters);
    let (first, _) = store.backup_with(std::slice::from_ref(&old), false);
    store.backup(std::slice::from_ref(&new));
    assert!(store.is_burst_on(&new, &old));
    store.forget(&[first]);
    store.prune(&PruneOptions::default());
    assert_eq!(store.burst(&new), None, "a full chunk");
    store.check();
}

/// A chunk that a prune copies keeps its entries and its counters.
#[test]
fn entries_outlive_a_copy() {
    let store = Store::new(QUARTER_ONCE);
    let [old, new, newer] = ["hhaaaaaa", "hhbbbbbb", "hhcccccc"].map(letters);
    let noise: Vec<Vec<u8>> = (100..200).map(|seed| SplitMix64::bytes(seed, 4000)).collect();
    let (first, _) = store.backup_with(&noise, false);
    let mixed = [&noise[..], std::slice::from_ref(&old)].concat();
    let (second, _) = store.backup_with(&[mixed, vec![new.clone()]].concat(), false);
    let containers = || store.storage.list(ObjectKind::Data.folder()).expect("memory lists");
    let (hints, before) = (store.hints(), containers());
    store.forget(&[first, second]);
    store.backup(&[old.clone(), new.clone()]);
    store.prune(&PruneOptions { unused_max: 0.0, ..PruneOptions::default() });
    assert_ne!(containers(), before, "it is copied");
    assert_ne!(store.hints(), hints);
    assert!(store.is_burst_on(&new, &old), "as a burst");
    let statistics = store.backup(std::slice::from_ref(&newer));
    assert_eq!(statistics.head.exhausted_count, 1, "found, and has its burst");
    store.check();
}

/// Hints may be missing, come from others, or be wrong. That costs size, and nothing else.
#[test]
fn missing_or_wrong_hints_cost_only_size() {
    let [old, new] = ["hhaaaatt", "hhbbbbtt"].map(letters);
    let outcome = |change: &dyn Fn(&mut Option<BurstHints>)| {
        let store = Store::new(QUARTER_ONCE);
        store.backup(&[SplitMix64::bytes(1, 5000), old.clone()]);
        for path in store.hints() {
            let name = ObjectName::parse(&path).expect("a name");
            let body = store.repository.get(name).expect("it is there");
            let mut hints = SimilarityObject::decode(&body).expect("it is well");
            let mut bursts = BurstHints::decode(&hints.extra);
            change(&mut bursts);
            hints.extra = bursts.map(|bursts| bursts.encode()).unwrap_or_default();
            store.storage.delete(&path).expect("memory deletes");
            store.repository.seal_and_put(name, &hints.encode()).expect("memory takes it");
        }
        let statistics = store.backup(std::slice::from_ref(&new));
        store.check();
        (store.burst(&new).is_some(), statistics.missing_count)
    };
    let with = |change: &dyn Fn(&mut BurstHints)| {
        outcome(&|bursts| change(bursts.as_mut().expect("it is there")))
    };
    assert_eq!(outcome(&|_| {}), (true, 0), "as it is");
    assert_eq!(outcome(&|bursts| *bursts = None), (false, 0), "none");
    assert_eq!(with(&|bursts| bursts.tau = "1/8".to_owned()), (false, 0), "of another tau");
    assert_eq!(with(&|bursts| bursts.edges[0].reverse()), (false, 2), "of another chunk");
    assert_eq!(with(&|bursts| bursts.edges.clear()), (false, 0), "of no container");
    let more = with(&|bursts| bursts.edges[0] = bursts.edges[0].repeat(10));
    assert_eq!(more, (false, 2), "of more chunks than there are");
}

/// Bursts on chunks of the same writer, which was interrupted: the next writer finds both, and
/// needs nothing else.
#[test]
fn bursts_of_an_interrupted_writer_count() {
    let store = Store::new(QUARTER_ONCE);
    let chunks = ["hhaaaaaa", "hhbbbbbb"].map(letters);
    {
        let writer = Writer::begin(store.repository.clone(), Purpose::Backup).expect("it begins");
        let (view, ticket) = (writer.view().clone(), writer.ticket());
        let mut inline = Inline::new(writer, Verify::All).expect("it opens");
        let index = inline.index().clone();
        let reader = Reader::new(store.repository.clone(), Arc::new(index.fork()), view);
        let mut bursts = Bursts::new(QUARTER_ONCE, &reader, &index, ticket);
        for chunk in &chunks {
            inline.store_similar(chunk, &mut bursts).expect("it is stored");
            inline.publish().expect("memory takes it");
        }
        // The writer ends here without a commit.
    }
    let store = Store { repository: open(store.storage.clone(), 2).expect("it opens"), ..store };
    let containers = || store.storage.list(ObjectKind::Data.folder()).expect("memory lists").len();
    let before = containers();
    store.backup(&chunks);
    assert!(store.is_burst_on(&chunks[1], &chunks[0]));
    assert_eq!(containers(), before, "nothing is stored again");
    store.check();
}

/// A stream of blocks of one size, many of which resemble others.
fn similar_blocks(seed: u64, count: usize) -> Vec<Vec<u8>> {
    const BLOCK_LEN: usize = 1024;
    let mut numbers = SplitMix64::new(seed);
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let mut block = match blocks.len() {
            len if len > 0 && numbers.below(8) > 0 => blocks[numbers.below(len)].clone(),
            _ => numbers.take(BLOCK_LEN),
        };
        // The head, the tail or the middle, so that no burst is as long as its block.
        let (start, end) = match numbers.below(4) {
            0 => (numbers.below(20), 30 + numbers.below(200)),
            1 => (700 + numbers.below(200), BLOCK_LEN - numbers.below(20)),
            2 => (300 + numbers.below(200), 501 + numbers.below(200)),
            _ => (0, 0),
        };
        block[start..end].copy_from_slice(&numbers.take(end - start));
        blocks.push(block);
    }
    // The last block of a file.
    blocks.push(numbers.take(700));
    blocks
}

/// The store and the deduplicator in memory make the same of every block: a full chunk, or a burst
/// of the same length on the same reference chunk. This holds for every variant and number of
/// backups, and whenever containers are named.
#[test]
fn store_and_deduplicator_decide_alike() {
    let variants = [
        Options { c_max: 1, ..Options::BURST },
        Options { c_max: 3, tau: Tau::Bytes(100), ..Options::BURST },
        Options { tau: Tau::Bytes(128), ..Options::HEAD },
        Options { c_max: 2, ..Options::RAW },
        Options { c_max: 1, ..Options::HEAD_RAW },
        Options::LEGACY,
    ];
    let mut met = [0; 4];
    for (seed, options) in (1..).zip(variants) {
        let blocks = similar_blocks(seed, 150);
        for (backup_count, publish) in [(1, false), (1, true), (5, false)] {
            let mut deduplicator = Deduplicator::new(options);
            let mut by_name = HashMap::new();
            let store = Store::new(options);
            let mut statistics = BurstStatistics::default();
            for blocks in blocks.chunks(blocks.len().div_ceil(backup_count)) {
                statistics = store.backup_with(blocks, publish).1;
                for block in blocks {
                    by_name.insert(deduplicator.write(block), block);
                }
            }
            let expected = deduplicator.statistics();
            assert_eq!((statistics.refused_count, statistics.missing_count), (0, 0), "{options:?}");
            if backup_count == 1 {
                let head = (statistics.head.hit_count, statistics.head.exhausted_count);
                let tail = (statistics.tail.hit_count, statistics.tail.exhausted_count);
                let (head_dt, tail_dt) = (expected.head_dt, expected.tail_dt);
                assert_eq!(head, (head_dt.burst_count, head_dt.exhausted_count), "{options:?}");
                assert_eq!(tail, (tail_dt.burst_count, tail_dt.exhausted_count), "{options:?}");
                let kept = |count| usize::try_from(count).expect("few");
                met[0] += kept(head.0);
                met[1] += kept(head.1);
                met[2] += kept(tail.0);
                met[3] += kept(tail.1);
            }
            let entries = [statistics.head.entry_count, statistics.tail.entry_count];
            let tables = [expected.head_dt.table, expected.tail_dt.table];
            assert_eq!(entries, tables.map(|table| table.entry_count), "{options:?}");
            for (name, block) in &by_name {
                let burst = store.burst(block);
                let expected = deduplicator.burst(name);
                let lens = expected.map(|burst| (burst.range().start, burst.post_len()));
                let found = burst.map(|burst| (burst.prefix_len as usize, burst.data_len as usize));
                assert_eq!(found, lens, "{options:?}, {backup_count} backups");
                let reference = deduplicator.reference(name).map(|reference| by_name[&reference]);
                let reference = reference.map(|reference| store.fingerprint(reference));
                assert_eq!(burst.map(|burst| burst.reference), reference, "{options:?}");
            }
        }
    }
    assert!(met.iter().all(|count| *count > 10), "{met:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Theorem 1: a change that replaces at most len - 2 tau of a reference chunk of length len is
    /// stored as a burst on it, with no more new bytes than the change has.
    #[test]
    fn short_burst_is_found(
        seed in any::<u64>(),
        len in 300..3000_usize,
        tau in 1..=100_usize,
        pre_len in any::<prop::sample::Index>(),
        start in any::<prop::sample::Index>(),
        post_len in 0..2000_usize,
        is_one_backup in any::<bool>(),
    ) {
        let reference = SplitMix64::bytes(seed, len);
        let pre_len = pre_len.index(len - 2 * tau + 1);
        let start = start.index(len - pre_len + 1);
        let new = SplitMix64::bytes(!seed, post_len);
        let chunk = [&reference[..start], &new, &reference[start + pre_len..]].concat();
        prop_assume!(chunk != reference && Tau::Bytes(tau).len(chunk.len()).is_some());
        // A burst that takes no less than the chunk is not stored: the names of the reference and of
        // the new bytes, of 32 bytes each, and a few numbers.
        prop_assume!(chunk.len() > post_len + 96);
        let store = Store::new(Options { tau: Tau::Bytes(tau), ..Options::BURST });
        if is_one_backup {
            store.backup(&[reference.clone(), chunk.clone()]);
        } else {
            store.backup(std::slice::from_ref(&reference));
            store.backup(std::slice::from_ref(&chunk));
        }
        let burst = store.burst(&chunk);
        prop_assert!(burst.is_some_and(|burst| {
            burst.reference == store.fingerprint(&reference) && burst.data_len as usize <= post_len
        }), "{burst:?}");
    }
}
