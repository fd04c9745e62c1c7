//! What snapshots reach: every tree and recipe, looked at once, and the chunks that they name.

use std::collections::HashSet;

use minicbor::Decoder;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{Entry, EntryKind};
use crate::reader::ChunkBytes;

/// Hears of what is reached.
pub(crate) trait Visit {
    /// Returns the bytes of a tree or recipe that is reached, verified.
    ///
    /// # Errors
    ///
    /// Go to [`Visit::unreadable`].
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes>;

    /// Some of a chunk of a file is reached: `length` bytes from `offset` on. Comes for every
    /// reference in a tree or recipe that is looked at.
    ///
    /// # Errors
    ///
    /// Stop the walk.
    fn data(&mut self, fingerprint: &Fingerprint, offset: u64, length: u64) -> Result<()>;

    /// A tree or recipe cannot be read, or is not what what names it says.
    ///
    /// # Errors
    ///
    /// Stop the walk.
    fn unreadable(&mut self, fingerprint: &Fingerprint, error: Error) -> Result<()>;
}

/// A walk over what several snapshots reach.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    seen: Seen,
}

/// A metadata chunk that is to be looked at.
enum Job {
    /// A recipe of a tree or of a file, and what the recipe above it says of its level and length.
    Recipe { fingerprint: Fingerprint, expected: Option<(u32, u64)>, is_tree: bool },
    /// A chunk of a tree, and its length.
    Tree { fingerprint: Fingerprint, length: u64 },
}

impl Walk {
    /// Visits what the tree `root` reaches and was not visited before; some of it again, where it
    /// is very much.
    ///
    /// # Errors
    ///
    /// Those of `visit`.
    pub(crate) fn walk(&mut self, root: &Content, visit: &mut impl Visit) -> Result<()> {
        // A stack of its own: folders can be nested deeper than a thread's stack.
        let mut jobs = Vec::new();
        content(root, true, &mut jobs, visit)?;
        while let Some(job) = jobs.pop() {
            let (Job::Recipe { fingerprint, .. } | Job::Tree { fingerprint, .. }) = job;
            let kind = match &job {
                Job::Recipe { is_tree, .. } => u8::from(*is_tree),
                Job::Tree { .. } => 2,
            };
            if !self.seen.insert(&fingerprint, kind) {
                continue;
            }
            let bytes = visit.meta(&fingerprint);
            // The error is the chunk's; those of the visitor end the walk.
            let done = match job {
                Job::Recipe { expected, is_tree, .. } => {
                    match bytes.and_then(|bytes| decode_recipe(fingerprint, expected, &bytes)) {
                        Ok(recipe) => Ok(enter_recipe(&recipe, is_tree, &mut jobs, visit)?),
                        Err(error) => Err(error),
                    }
                }
                Job::Tree { length, .. } => {
                    match bytes.and_then(|bytes| decode_tree(fingerprint, length, &bytes)) {
                        Ok(entries) => {
                            for entry in entries {
                                let is_tree = entry.kind == EntryKind::Folder;
                                content(&entry.content, is_tree, &mut jobs, visit)?;
                            }
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            if let Err(error) = done {
                visit.unreadable(&fingerprint, error)?;
            }
        }
        Ok(())
    }
}

fn content(
    content: &Content,
    is_tree: bool,
    jobs: &mut Vec<Job>,
    visit: &mut impl Visit,
) -> Result<()> {
    match content {
        Content::Empty | Content::Raw(_) => Ok(()),
        Content::Segments(segments) => enter_segments(segments, is_tree, jobs, visit),
        Content::Recipe(fingerprint) => {
            jobs.push(Job::Recipe { fingerprint: *fingerprint, expected: None, is_tree });
            Ok(())
        }
    }
}

fn enter_segments(
    segments: &[Segment],
    is_tree: bool,
    jobs: &mut Vec<Job>,
    visit: &mut impl Visit,
) -> Result<()> {
    for segment in segments {
        let Segment::Chunk { fingerprint, offset, length } = *segment else { continue };
        if is_tree {
            jobs.push(Job::Tree { fingerprint, length });
        } else {
            visit.data(&fingerprint, offset, length)?;
        }
    }
    Ok(())
}

fn enter_recipe(
    recipe: &RecipeChunk,
    is_tree: bool,
    jobs: &mut Vec<Job>,
    visit: &mut impl Visit,
) -> Result<()> {
    if recipe.level == 0 {
        return enter_segments(&recipe.segments, is_tree, jobs, visit);
    }
    jobs.extend(recipe.segments.iter().filter_map(|segment| match *segment {
        Segment::Chunk { fingerprint, length, .. } => {
            Some(Job::Recipe { fingerprint, expected: Some((recipe.level - 1, length)), is_tree })
        }
        _ => None,
    }));
    Ok(())
}

/// Reads a recipe, of which the one above it says the level and the length of what it names.
///
/// # Errors
///
/// `Corrupt` where it is malformed, or something else.
pub(crate) fn decode_recipe(
    fingerprint: Fingerprint,
    expected: Option<(u32, u64)>,
    bytes: &[u8],
) -> Result<RecipeChunk> {
    let object = || format!("recipe {fingerprint}");
    let recipe = RecipeChunk::decode(bytes).map_err(|error| error.of(object()))?;
    let length = recipe.segments.iter().map(Segment::length).sum();
    if expected.is_some_and(|expected| expected != (recipe.level, length)) {
        return Err(Error::corrupt(object(), "is not what the recipe above it says"));
    }
    Ok(recipe)
}

fn decode_tree(fingerprint: Fingerprint, length: u64, bytes: &[u8]) -> Result<Vec<Entry>> {
    let object = || format!("tree {fingerprint}");
    if bytes.len() as u64 != length {
        let message = format!("has {} bytes, not {length}", bytes.len());
        return Err(Error::corrupt(object(), message));
    }
    let d = &mut Decoder::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while d.position() < bytes.len() {
        let entry = Entry::decode(d).map_err(|error| error.of(object()))?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(Error::corrupt(object(), "names do not rise"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// How many chunks one generation of [`Seen`] has: a table of 2^20 slots, 18 MB.
const GENERATION_LEN: usize = 900_000;

/// The metadata chunks that were looked at, by half their fingerprints. Bounded: what has not been
/// met for long is forgotten, and then looked at again.
#[derive(Debug, Default)]
struct Seen {
    young: HashSet<[u8; 16]>,
    old: HashSet<[u8; 16]>,
}

impl Seen {
    /// Whether `fingerprint` is new as this `kind` of chunk: what one is taken for decides what it
    /// reaches.
    fn insert(&mut self, fingerprint: &Fingerprint, kind: u8) -> bool {
        let mut half = [0; 16];
        half.copy_from_slice(&fingerprint.0[..16]);
        half[15] ^= kind;
        if self.young.contains(&half) {
            return false;
        }
        let is_new = !self.old.contains(&half);
        if self.young.len() == GENERATION_LEN {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(half);
        is_new
    }
}
