//! Recipes and trees of many entries: their chunks end as `docs/format.md` says, and they
//! round-trip.

use std::collections::{BTreeMap, HashMap};

use cutpoint_repository::format::recipe::{RecipeChunk, Segment};
use cutpoint_repository::write::{ChunkSink, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    CipherSuite, Content, Entry, EntryKind, Fingerprint, Keyring, Keys, RepositoryId, Secret,
};
use cutpoint_storage::Result;
use cutpoint_testing::SplitMix64;
use minicbor::Decoder;

/// Chunks in memory, and the order in which they came.
#[derive(Default)]
struct Chunks {
    all: HashMap<Fingerprint, Vec<u8>>,
    order: Vec<Fingerprint>,
}

impl ChunkSink for Chunks {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = Fingerprint(blake3::hash(chunk).into());
        self.all.insert(fingerprint, chunk.to_vec());
        self.order.push(fingerprint);
        Ok(fingerprint)
    }
}

impl Chunks {
    fn recipe(&self, fingerprint: &Fingerprint) -> RecipeChunk {
        RecipeChunk::decode(&self.all[fingerprint]).expect("it was just encoded")
    }

    /// Collects the segments of the stream below a recipe chunk.
    fn leaves(&self, fingerprint: &Fingerprint, into: &mut Vec<Segment>) {
        let recipe = self.recipe(fingerprint);
        if recipe.level == 0 {
            into.extend(recipe.segments);
            return;
        }
        for segment in &recipe.segments {
            let Segment::Chunk { fingerprint, offset: 0, length } = segment else {
                panic!("{segment:?} above the lowest level")
            };
            let below = self.recipe(fingerprint);
            assert_eq!(below.level + 1, recipe.level, "one level below");
            let found: u64 = below.segments.iter().map(Segment::length).sum();
            assert_eq!(found, *length, "the length of what is below");
            self.leaves(fingerprint, into);
        }
    }
}

fn ends_recipe(segment: &Segment) -> bool {
    let Segment::Chunk { fingerprint, .. } = segment else { return false };
    fingerprint.0[31] == 0 && fingerprint.0[30].is_multiple_of(2)
}

#[test]
fn recipe_chunks_end_as_the_page_says() {
    let mut random = SplitMix64::new(7);
    let mut chunk = |last: Option<[u8; 2]>| {
        let mut fingerprint = Fingerprint([0; 32]);
        fingerprint.0.copy_from_slice(&random.take(32));
        if let Some(last) = last {
            fingerprint.0[30..].copy_from_slice(&last);
        }
        Segment::Chunk { fingerprint, offset: 0, length: 1 + u64::from(fingerprint.0[0]) }
    };
    let mut segments: Vec<Segment> = Vec::new();
    segments.extend((0..350_000).map(|_| chunk(None)));
    // Each of these could end a recipe chunk, and none of the others.
    segments.extend((0..100).map(|_| chunk(Some([2, 0]))));
    segments.extend((0..5000).map(|_| chunk(Some([1, 0]))));
    segments.extend((0..5000).map(|_| chunk(Some([0, 1]))));
    let mut chunks = Chunks::default();
    let mut writer = RecipeWriter::new("fixed");
    for segment in &segments {
        writer.push(*segment, &mut chunks).expect("memory takes it");
    }
    let size: u64 = segments.iter().map(Segment::length).sum();
    assert_eq!(writer.size(), size);
    let Content::Recipe(top) = writer.finish(&mut chunks).expect("memory takes it") else {
        panic!("more than a few segments")
    };
    let mut found = Vec::new();
    chunks.leaves(&top, &mut found);
    assert!(found == segments, "the stream comes back");
    let mut of_level: BTreeMap<u32, Vec<RecipeChunk>> = BTreeMap::new();
    for fingerprint in &chunks.order {
        let recipe = chunks.recipe(fingerprint);
        of_level.entry(recipe.level).or_default().push(recipe);
    }
    assert_eq!(chunks.recipe(&top).level, 2, "two levels of recipes, and their top");
    assert_eq!(of_level[&2].len(), 1, "one top");
    for recipes in of_level.values() {
        for recipe in &recipes[..recipes.len() - 1] {
            let (last, before) = recipe.segments.split_last().expect("none is empty");
            let count = recipe.segments.len();
            assert!(count >= 16 && (count == 4096 || ends_recipe(last)), "{count} entries");
            assert!(!before.iter().skip(15).any(ends_recipe), "it could have ended before");
        }
    }
}

#[test]
fn adjacent_holes_are_merged() {
    let hole = |length| Segment::Hole { length };
    let zeros = |length| Segment::Zeros { length };
    let mut chunks = Chunks::default();
    let mut writer = RecipeWriter::new("fixed");
    for segment in [hole(5), hole(0), hole(6), zeros(7), zeros(1), zeros(2), hole(3)] {
        writer.push(segment, &mut chunks).expect("memory takes it");
    }
    assert_eq!(writer.size(), 24);
    let content = writer.finish(&mut chunks).expect("memory takes it");
    assert_eq!(content, Content::Segments(vec![hole(11), zeros(10), hole(3)]));
    assert!(chunks.order.is_empty(), "they stand in the entry");
}

fn keys() -> Keys {
    let keyring = Keyring { repository: RepositoryId([5; 16]), epochs: vec![(1, Secret([3; 32]))] };
    Keys::derive(&keyring, CipherSuite::None)
}

/// Returns `true` if a chunk of 4096 bytes ends before this entry.
fn begins_a_chunk(keys: &Keys, entry: &Entry) -> bool {
    let bits = if matches!(entry.content, Content::Raw(_)) { 5 } else { 7 };
    keys.name_hash(&entry.name).trailing_zeros() >= bits
}

#[test]
fn tree_chunks_end_as_the_page_says() {
    let keys = keys();
    let mut names: Vec<String> = (0..5000).map(|number| format!("name {number:06}")).collect();
    // None of these begins a chunk, so one is cut by its size.
    let long = (0..).map(|number| format!("z{number:0200}"));
    let long = long.filter(|name| keys.name_hash(name.as_bytes()).trailing_zeros() < 7);
    names.extend(long.take(600));
    let mut chunks = Chunks::default();
    let mut tree = TreeWriter::new();
    for (number, name) in names.iter().enumerate() {
        let mut entry = Entry::new(name.as_bytes().to_vec(), EntryKind::File);
        if number < 5000 && number % 3 == 0 {
            (entry.kind, entry.content) = (EntryKind::Folder, Content::Raw(vec![b'?'; 200]));
        }
        tree.push(&entry, &keys, &mut chunks).expect("memory takes it");
    }
    let again = Entry::new(b"name 000000".to_vec(), EntryKind::File);
    tree.push(&again, &keys, &mut chunks).expect_err("names rise");
    let Content::Recipe(recipe) = tree.finish(&mut chunks).expect("memory takes it") else {
        panic!("more than a few chunks")
    };
    let mut segments = Vec::new();
    chunks.leaves(&recipe, &mut segments);
    let mut found = Vec::new();
    let mut len_before = None;
    let mut cut_by_size = 0;
    for segment in segments {
        let Segment::Chunk { fingerprint, length, .. } = segment else { panic!("{segment:?}") };
        let bytes = &chunks.all[&fingerprint];
        assert_eq!(bytes.len() as u64, length);
        assert!(bytes.len() <= 65_536, "{length} bytes");
        let mut decoder = Decoder::new(bytes);
        while decoder.position() < bytes.len() {
            let start = decoder.position();
            let entry = Entry::decode(&mut decoder).expect("it was just encoded");
            let len = decoder.position() - start;
            let begins_a_chunk = begins_a_chunk(&keys, &entry);
            match len_before {
                Some(before) if start == 0 => {
                    let is_full = before + len > 65_536;
                    cut_by_size += usize::from(!begins_a_chunk && is_full);
                    assert!(begins_a_chunk && before >= 4096 || is_full, "after {before} bytes");
                }
                _ => assert!(!begins_a_chunk || start < 4096, "not cut at {start}"),
            }
            found.push(String::from_utf8(entry.name).expect("a text"));
        }
        len_before = Some(bytes.len());
    }
    assert!(found == names, "the tree comes back");
    assert!(cut_by_size > 0, "what has no end is cut");
}

/// The longest tree that this program leaves in the entry of its folder has 1024 bytes.
#[test]
fn short_trees_stay_in_the_entry() {
    let keys = keys();
    let write = |name_len: usize| {
        let (mut chunks, mut tree) = (Chunks::default(), TreeWriter::new());
        let entry = Entry::new(vec![b'n'; name_len], EntryKind::File);
        let mut bytes = Vec::new();
        entry.encode_into(&mut bytes);
        tree.push(&entry, &keys, &mut chunks).expect("the sink takes it");
        let root = tree.clone().finish(&mut chunks).expect("the sink takes it");
        assert_eq!((chunks.order.len(), &chunks.all[&chunks.order[0]]), (1, &bytes), "a root");
        assert!(matches!(root, Content::Segments(_)), "a root");
        chunks.order.clear();
        let content = tree.finish_below(&mut chunks).expect("the sink takes it");
        (bytes, content, chunks.order.len())
    };
    let overhead = write(500).0.len() - 500;
    let (bytes, content, chunk_count) = write(1024 - overhead);
    assert_eq!((bytes.len(), chunk_count), (1024, 0));
    assert_eq!(content, Content::Raw(bytes));
    let (bytes, content, chunk_count) = write(1025 - overhead);
    assert_eq!((bytes.len(), chunk_count), (1025, 1));
    assert!(matches!(content, Content::Segments(_)), "{content:?}");
    let mut chunks = Chunks::default();
    let empty = TreeWriter::new().finish_below(&mut chunks).expect("nothing to store");
    assert_eq!((empty, chunks.order.len()), (Content::Empty, 0));
}
