//! Bundles: small files that lie behind each other in a batch become one chunk.
//!
//! Each chunk takes a record in a directory, a hint in the index and a fingerprint wherever it is named,
//! whatever its size: of small files that resemble their former versions that is more than what is new in
//! them. So several are one chunk, and the recipe of each names its part of it. What a bundle is compared
//! with is what its files were before, where most of it was there before.
//!
//! Which files share a bundle depends on what is read one after the other, and on their names: where
//! nothing but bytes inside of files has changed, the same files are together again.

use std::ops::Range;

use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::seal::Keys;

use super::batch::{Batch, Cut, Event};

/// A file of more bytes is no small one.
const FILE_LEN_MAX: usize = 64 * 1024;
/// No bundle has more bytes.
const BUNDLE_LEN_MAX: usize = 192 * 1024;
/// One that has so many, or half of what it may have, ends with the next name that says so.
const BUNDLE_LEN_MIN: usize = 64 * 1024;
/// A name says so if its keyed hash ends in two zero bits.
const HASH_MASK: u64 = 3;

/// How small files are bundled.
#[derive(Clone, Debug)]
pub(super) struct Bundling {
    keys: Keys,
    file_len_max: usize,
    bundle_len_min: usize,
    bundle_len_max: usize,
}

/// A file that lies in a batch as a whole.
#[derive(Clone, Debug)]
struct SmallFile {
    /// The numbers of its events but for the last.
    events: Range<usize>,
    /// Its bytes in the batch.
    bytes: Range<usize>,
    /// Whether its name ends a bundle.
    may_end: bool,
}

impl Bundling {
    /// Bundles where no chunk is to have more than `chunk_len_max` bytes.
    pub(super) fn new(keys: Keys, chunk_len_max: usize) -> Bundling {
        let bundle_len_max = BUNDLE_LEN_MAX.min(chunk_len_max);
        Bundling {
            keys,
            file_len_max: FILE_LEN_MAX.min(chunk_len_max / 2),
            bundle_len_min: BUNDLE_LEN_MIN.min(bundle_len_max / 2),
            bundle_len_max,
        }
    }

    /// Whether the file of this name may be the last of a bundle that is not full.
    pub(super) fn may_end(&self, name: &[u8]) -> bool {
        self.keys.name_hash(name) & HASH_MASK == 0
    }

    /// Has small files of `batch` share chunks.
    pub(super) fn apply(&self, batch: &mut Batch) {
        let files = self.small_files(&batch.events);
        let mut changes: Vec<(Range<usize>, Vec<Event>)> = Vec::new();
        for bundle in self.bundles(&files).iter().filter(|bundle| bundle.len() > 1) {
            let bytes = bundle[0].bytes.start..bundle[bundle.len() - 1].bytes.end;
            let former = former(&batch.events, bundle).map(Box::new);
            let mut added = vec![Event::Bundle(Cut::new(bytes.clone()), former)];
            for file in *bundle {
                let offset = (file.bytes.start - bytes.start) as u64;
                added.push(Event::Part { offset, length: file.bytes.len() as u64 });
                changes.push((file.events.clone(), std::mem::take(&mut added)));
            }
        }
        if changes.is_empty() {
            return;
        }
        let mut changes = changes.into_iter().peekable();
        let before = std::mem::take(&mut batch.events);
        for (number, event) in before.into_iter().enumerate() {
            match changes.peek_mut() {
                Some((dropped, added)) if dropped.contains(&number) => {
                    batch.events.append(added);
                    if number + 1 == dropped.end {
                        changes.next();
                    }
                }
                _ => batch.events.push(event),
            }
        }
    }

    /// The small files whose events are all among these.
    fn small_files(&self, events: &[Event]) -> Vec<SmallFile> {
        let mut files = Vec::new();
        // Where the current file begins, and its bytes so far.
        let mut begun: Option<(usize, Range<usize>)> = None;
        for (number, event) in events.iter().enumerate() {
            match event {
                Event::Begin(_) => begun = Some((number, 0..0)),
                Event::Chunk(cut) => {
                    begun = begun.take().and_then(|(first, bytes)| match bytes.is_empty() {
                        true => Some((first, cut.start..cut.end())),
                        false => {
                            (bytes.end == cut.start).then_some((first, bytes.start..cut.end()))
                        }
                    });
                }
                Event::File(entry) => {
                    let found = begun
                        .take()
                        .filter(|(_, bytes)| !bytes.is_empty() && bytes.len() <= self.file_len_max);
                    files.extend(found.map(|(first, bytes)| SmallFile {
                        events: first..number,
                        bytes,
                        may_end: self.may_end(&entry.name),
                    }));
                }
                // Holes, or a file that does not come to its end.
                _ => begun = None,
            }
        }
        files
    }

    /// What lies behind each other, as bundles.
    fn bundles<'a>(&self, mut files: &'a [SmallFile]) -> Vec<&'a [SmallFile]> {
        let mut bundles = Vec::new();
        while let Some(first) = files.first() {
            let start = first.bytes.start;
            let is_end = |pair: &[SmallFile]| {
                let (last, next) = (&pair[0], &pair[1]);
                next.bytes.start != last.bytes.end
                    || next.bytes.end - start > self.bundle_len_max
                    || (last.may_end && last.bytes.end - start >= self.bundle_len_min)
            };
            let end = files.windows(2).position(is_end).map_or(files.len(), |last| last + 1);
            let (bundle, rest) = files.split_at(end);
            bundles.push(bundle);
            files = rest;
        }
        bundles
    }
}

/// What the files of a bundle were before, one after the other. Nothing where those that have no former
/// version are more than half of its bytes: what such a bundle resembles, its ends say, or what was stored
/// before it.
fn former(events: &[Event], files: &[SmallFile]) -> Option<Content> {
    let mut former: Vec<Segment> = Vec::new();
    let (mut len, mut known_len) = (0, 0);
    for file in files {
        len += file.bytes.len();
        let Event::Begin(Some(content)) = &events[file.events.start] else { continue };
        let Content::Segments(segments) = &**content else { continue };
        known_len += file.bytes.len();
        for segment in segments {
            // Neighbours in a chunk are one piece again: it is read once.
            if let (
                Some(Segment::Chunk { fingerprint, offset, length }),
                Segment::Chunk { fingerprint: next, offset: begins, length: more },
            ) = (former.last_mut(), segment)
                && (fingerprint == next && *offset + *length == *begins)
            {
                *length += more;
                continue;
            }
            former.push(*segment);
        }
    }
    (known_len * 2 >= len).then_some(Content::Segments(former))
}
