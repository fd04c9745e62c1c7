//! Trees and recipes: repeated, contradictory, or with names that lead out of a folder.

use cutpoint_repository::format::recipe::{LEVEL_MAX, RAW_LEN_MAX, RecipeChunk, Segment as Piece};
use cutpoint_repository::gc::prune::{PruneOptions, plan};
use cutpoint_repository::verify::repair::RepairOutcome;
use cutpoint_repository::write::{ChunkSink, Inline};
use cutpoint_repository::{Class, Content, Entry, EntryKind, Fingerprint};
use cutpoint_storage::{Kind, Result};

use super::{encode, file, findings, new_repository, plant, reader, repair};
use crate::support::planted::folder_of;

/// Recipes of recipes, a thousand times the same on each level: a stream of 10^15 bytes in a few
/// chunks. Every operation visits each chunk once.
#[test]
fn repeated_recipe_is_marked_once() {
    let repository = new_repository();
    let mut size = 1000_u64;
    plant(&repository, |inline| {
        let mut below = inline.store_data(&[7; 1000])?;
        for level in 0..4 {
            let piece = Piece::Chunk { fingerprint: below, offset: 0, length: size };
            let segments = vec![piece; 1000];
            let recipe = RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] };
            below = inline.store_meta(&recipe.encode())?;
            size *= 1000;
        }
        let mut file = Entry::new("file", EntryKind::File);
        (file.size, file.content) = (size, Content::Recipe(below));
        let tree = encode(&[file]);
        Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
    });
    assert_eq!(findings(&repository), [""; 0], "nothing is wrong with it");
    let planned = plan(&repository, &PruneOptions::default(), &()).expect("it can be planned");
    assert_eq!(planned.condemned_count, 0, "everything is needed");
    let reader = reader(&repository);
    let view = reader.view();
    let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
    let file = reader.tree(&snapshot.root).next().expect("a file").expect("it can be read");
    assert_eq!(reader.segments(&file.content).take(5000).filter(Result::is_ok).count(), 5000);
}

/// Creates folders in folders, each twice in the one above it, with `levels` levels above the tree
/// of `leaf`. Sixty levels make 2^60 paths in sixty chunks.
fn folders_twice(inline: &mut Inline, leaf: &[Entry], levels: usize) -> Result<Content> {
    let mut below = match leaf {
        [] => Content::Empty,
        leaf => tree_of(inline, leaf)?,
    };
    for _ in 0..levels {
        let entries = ["a", "b"].map(|name| {
            let mut folder = Entry::new(name, EntryKind::Folder);
            folder.content = below.clone();
            folder
        });
        below = tree_of(inline, &entries)?;
    }
    Ok(below)
}

fn tree_of(inline: &mut Inline, entries: &[Entry]) -> Result<Content> {
    let tree = encode(entries);
    Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
}

/// A chunk that is not stored anywhere.
const NOWHERE: Piece = Piece::Chunk { fingerprint: Fingerprint([0xee; 32]), offset: 0, length: 8 };

/// A folder whose tree lies in its entry.
fn folder_with(name: &str, tree: Vec<u8>) -> Entry {
    let mut folder = Entry::new(name, EntryKind::Folder);
    folder.content = Content::Raw(tree);
    folder
}

/// Folders in folders, each in the entry of the one above it, as deep as an entry allows. What the
/// deepest one names is needed.
#[test]
fn deepest_trees_in_entries_are_entered() {
    let repository = new_repository();
    plant(&repository, |inline| {
        let fingerprint = inline.store_data(b"8 bytes.")?;
        let piece = Piece::Chunk { fingerprint, offset: 0, length: 8 };
        let mut below = encode(&[file("f", 8, Content::Segments(vec![piece]))]);
        while let tree = encode(&[folder_with("d", below.clone())])
            && tree.len() <= RAW_LEN_MAX
        {
            below = tree;
        }
        tree_of(inline, &[folder_with("top", below)])
    });
    assert_eq!(findings(&repository), [""; 0], "nothing is wrong with it");
    let reader = reader(&repository);
    let (mut content, mut depth) = (reader.view().snapshots()[0].1.root.clone(), 0);
    let file = loop {
        let entry = reader.tree(&content).next().expect("an entry").expect("it can be read");
        match entry.kind {
            EntryKind::Folder => (content, depth) = (entry.content, depth + 1),
            _ => break entry,
        }
    };
    assert!(depth > 100, "{depth} folders");
    let Content::Segments(segments) = file.content else { panic!("a chunk") };
    let [Piece::Chunk { fingerprint, .. }] = segments[..] else { panic!("a chunk") };
    reader.chunk(Class::Data, &fingerprint).expect("it is there");
    let planned = plan(&repository, &PruneOptions::default(), &()).expect("it can be planned");
    assert_eq!((planned.condemned_count, planned.unused_bytes), (0, 0), "{planned:?}");
}

/// A chunk with an invalid tree in an entry, at any depth, is unreadable: nobody can say what it needs.
#[test]
fn invalid_tree_in_an_entry_makes_its_chunk_unreadable() {
    let fallen = encode(&[file("b", 0, Content::Empty), file("a", 0, Content::Empty)]);
    let escaping = encode(&[file("..", 0, Content::Empty)]);
    let cut = encode(&[file("abc", 0, Content::Empty)]);
    let cut = cut[..cut.len() - 1].to_vec();
    for tree in [fallen, escaping, cut, vec![0xff]] {
        for below in [tree.clone(), encode(&[folder_with("below", tree)])] {
            let repository = new_repository();
            plant(&repository, |inline| {
                let entries = [folder_with("bad", below), file("good", 0, Content::Empty)];
                tree_of(inline, &entries)
            });
            let found = findings(&repository);
            assert!(found.iter().any(|text| text.contains("cannot be listed")), "{found:?}");
            let error =
                plan(&repository, &PruneOptions::default(), &()).expect_err("it would lose");
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            let (done, losses) = repair(&repository);
            assert_eq!((done.snapshots.len(), losses.len()), (1, 1), "{done:?}: {losses:?}");
        }
    }
}

#[test]
fn repeated_folder_is_marked_once() {
    let repository = new_repository();
    plant(&repository, |inline| folders_twice(inline, &[], 60));
    assert_eq!(findings(&repository), [""; 0], "nothing is wrong with it");
    plan(&repository, &PruneOptions::default(), &()).expect("it can be planned");
}

/// Something is lost on each of 2^60 paths, or on more than can be counted. Some paths are named.
/// The others are counted without visiting them.
#[test]
fn missing_chunks_on_very_many_paths_are_counted() {
    for (levels, more) in [(60, (1 << 60) - 1000), (70, u64::MAX - 1000)] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let stored = inline.store_data(b"8 bytes.")?;
            let piece = Piece::Chunk { fingerprint: stored, offset: 0, length: 8 };
            let lost = file("lost", 8, Content::Segments(vec![NOWHERE]));
            let leaf = [lost, file("sound", 8, Content::Segments(vec![piece]))];
            folders_twice(inline, &leaf, levels)
        });
        let found = findings(&repository);
        let named = found.iter().filter(|text| text.contains("/lost: cannot")).count();
        assert_eq!(named, 1000, "paths that are named");
        let text = format!("snapshots: {more} more paths are affected");
        assert!(found.contains(&text), "{:?}", found.last());

        let (done, losses) = repair(&repository);
        let [each] = &done.snapshots[..] else { panic!("{done:?}") };
        assert!(matches!(each.outcome, RepairOutcome::Repaired(_)), "{each:?}");
        assert_eq!(losses.len(), 10_000, "losses that are named");
        let all = if levels < 64 { 1 << levels } else { u64::MAX };
        assert_eq!(each.loss_count, all, "losses");
        let unnamed = all - 10_000;
        // Beyond the highest number the count is not exact.
        assert!(each.unnamed_count == unnamed || levels > 64 && each.unnamed_count > unnamed);
        let left: Vec<String> =
            findings(&repository).into_iter().filter(|text| !text.contains("forgotten")).collect();
        assert_eq!(left, [""; 0], "what is left is intact");
        let reader = reader(&repository);
        let mut content = reader.view().snapshots()[0].1.root.clone();
        for level in 0..levels {
            let entries: Result<Vec<Entry>> = reader.tree(&content).collect();
            let mut entries = entries.expect("it can be read");
            assert_eq!(entries.len(), 2, "both are there");
            content = entries.swap_remove(level % 2).content;
        }
        let leaf: Vec<_> = reader.tree(&content).filter_map(Result::ok).map(|it| it.name).collect();
        assert_eq!(leaf, [b"sound"], "what is not lost");
    }
}

/// A lost part of a folder, below recipes that repeat it, is counted without visiting all paths.
#[test]
fn folder_missing_very_often_is_named_once() {
    let repository = new_repository();
    plant(&repository, |inline| {
        let (mut below, mut size) = (NOWHERE, 8);
        for level in 0..5 {
            let segments = vec![below; 1000];
            let recipe = RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] };
            size *= 1000;
            let fingerprint = inline.store_meta(&recipe.encode())?;
            below = Piece::Chunk { fingerprint, offset: 0, length: size };
        }
        let Piece::Chunk { fingerprint, .. } = below else { panic!("a chunk") };
        let mut folder = Entry::new("folder", EntryKind::Folder);
        folder.content = Content::Recipe(fingerprint);
        // As a file, it has lost more parts than can be visited.
        let entries = [file("file", size, Content::Recipe(fingerprint)), folder];
        folders_twice(inline, &entries, 3)
    });
    let found = findings(&repository);
    assert_eq!(found.iter().filter(|text| text.contains("/folder/: ")).count(), 8, "{found:?}");
    assert_eq!(found.iter().filter(|text| text.contains("/file: ")).count(), 8, "{found:?}");
    let (done, losses) = repair(&repository);
    assert_eq!(done.snapshots.len(), 1, "{done:?}");
    assert_eq!(losses.iter().filter(|text| text.ends_with("/: Entries")).count(), 8, "{losses:?}");
    assert_eq!(losses.iter().filter(|text| text.contains("/file: File")).count(), 8, "{losses:?}");
    let left: Vec<String> =
        findings(&repository).into_iter().filter(|text| !text.contains("forgotten")).collect();
    assert_eq!(left, [""; 0], "what is left is intact");
}

/// Two references to one chunk, one of which has a wrong length. The check reports it, whichever
/// comes first.
#[test]
fn contradictory_length_is_found() {
    for names in [["a", "b"], ["b", "a"]] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let data = inline.store_data(b"8 bytes.")?;
            let piece = Piece::Chunk { fingerprint: data, offset: 0, length: 8 };
            let recipe = |level, segments| {
                RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] }.encode()
            };
            let below = inline.store_meta(&recipe(0, vec![piece]))?;
            let mut entries = Vec::new();
            for (name, length) in names.into_iter().zip([8, 9]) {
                let piece = Piece::Chunk { fingerprint: below, offset: 0, length };
                let top = inline.store_meta(&recipe(1, vec![piece]))?;
                entries.push(file(name, length, Content::Recipe(top)));
            }
            entries.sort_by(|left, right| left.name.cmp(&right.name));
            tree_of(inline, &entries)
        });
        let (liar, found) = (format!("/{}: ", names[1]), findings(&repository));
        assert!(found.iter().any(|text| text.contains(&liar)), "{liar}: {found:?}");
    }
}

/// Recipes whose levels or lengths differ from those in the references to them. A cycle is
/// impossible, because a chunk cannot contain its own fingerprint.
#[test]
fn recipe_levels_must_descend() {
    let recipe = |level, segments| {
        RecipeChunk { level, cut: "fixed".to_owned(), segments, extra: vec![] }.encode()
    };
    let piece = |fingerprint, length| Piece::Chunk { fingerprint, offset: 0, length };
    let cases: [(&str, u32, u64, u32); 5] = [
        ("the same level", 1, 8, 1),
        ("a level between is left out", 2, 8, 0),
        ("rising", 1, 8, 2),
        ("another length", 1, 9, 0),
        ("too high", LEVEL_MAX + 1, 8, LEVEL_MAX),
    ];
    for (case, upper, length, lower) in cases {
        let repository = new_repository();
        plant(&repository, |inline| {
            let data = inline.store_data(b"8 bytes.")?;
            let below = inline.store_meta(&recipe(lower, vec![piece(data, 8)]))?;
            let top = inline.store_meta(&recipe(upper, vec![piece(below, length)]))?;
            let mut file = Entry::new("file", EntryKind::File);
            (file.size, file.content) = (8, Content::Recipe(top));
            tree_of(inline, &[file])
        });
        let found = findings(&repository);
        assert!(found.iter().any(|text| text.contains("/file")), "{case}: {found:?}");
        let reader = reader(&repository);
        let view = reader.view();
        let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
        let file = reader.tree(&snapshot.root).next().expect("a file").expect("it can be read");
        let last = reader.segments(&file.content).last().expect("an error at least");
        assert_eq!(last.map_err(|error| error.kind()), Err(Kind::Corrupt), "{case}");
    }
}

/// Names that lead out of a folder are never followed, and the check says where they are.
#[test]
fn names_that_lead_out_of_a_folder_are_not_read() {
    let long = "x".repeat(4097);
    for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "../x", "a\0b", &long] {
        let repository = new_repository();
        plant(&repository, |inline| {
            let mut folder = Entry::new("folder", EntryKind::Folder);
            let tree = encode(&[Entry::new(name, EntryKind::File)]);
            folder.content = folder_of(inline.store_meta(&tree)?, tree.len() as u64);
            let tree = encode(&[folder]);
            Ok(folder_of(inline.store_meta(&tree)?, tree.len() as u64))
        });
        let found = findings(&repository);
        assert!(found.iter().any(|text| text.contains("invalid name")), "{name:?}: {found:?}");
        let reader = reader(&repository);
        let view = reader.view();
        let (_, snapshot) = view.snapshots().into_iter().next().expect("a snapshot");
        let folder = reader.tree(&snapshot.root).next().expect("a folder").expect("it is well");
        let entries: Vec<_> = reader.tree(&folder.content).collect();
        assert!(matches!(&entries[..], [Err(error)] if error.kind() == Kind::Corrupt), "{name:?}");
    }
}
