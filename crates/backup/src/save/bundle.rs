//! Bundles: small files that are adjacent in a batch become one chunk.
//!
//! A chunk of any size takes a record in a table of contents, a hint in the index, and a
//! fingerprint in each reference. For small files that resemble their previous versions, this is
//! more than the new data in them. Therefore several files share one chunk, and the recipe of each
//! file refers to its part of the chunk. A bundle is compared with the previous versions of its
//! files if most of it had one.
//!
//! The files of a bundle depend on the order in which files are read and on their names. If only
//! bytes inside of files have changed, the same files are bundled again.

use std::ops::Range;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Keys};

use super::batch::{Batch, Cut, Event};

/// The maximum length of a small file, in bytes.
const FILE_LEN_MAX: usize = 64 * 1024;
/// The maximum length of a bundle, in bytes.
const BUNDLE_LEN_MAX: usize = 192 * 1024;
/// The length, in bytes, from which a bundle ends at the next name that may end one. Reduced to
/// half of the maximum length if that is smaller.
const BUNDLE_LEN_MIN: usize = 64 * 1024;
/// The mask of the keyed hash of a name. A name may end a bundle if the masked bits are zero, as
/// for one in four names.
const HASH_MASK: u64 = 3;

/// The rules by which small files are bundled.
#[derive(Clone, Debug)]
pub(super) struct Bundling {
    keys: Keys,
    file_len_max: usize,
    bundle_len_min: usize,
    bundle_len_max: usize,
}

/// A small file that lies completely in one batch.
#[derive(Clone, Debug)]
struct SmallFile {
    /// The indices of its events, except the last one.
    events: Range<usize>,
    /// The range of its bytes in the batch.
    bytes: Range<usize>,
    /// Set if its name may end a bundle.
    may_end: bool,
}

impl Bundling {
    /// Creates the rules for chunks of at most `chunk_len_max` bytes.
    pub(super) fn new(keys: Keys, chunk_len_max: usize) -> Bundling {
        let bundle_len_max = BUNDLE_LEN_MAX.min(chunk_len_max);
        Bundling {
            keys,
            file_len_max: FILE_LEN_MAX.min(chunk_len_max / 2),
            bundle_len_min: BUNDLE_LEN_MIN.min(bundle_len_max / 2),
            bundle_len_max,
        }
    }

    /// Returns `true` if a file of this name may end a bundle that is not full.
    pub(super) fn may_end(&self, name: &[u8]) -> bool {
        self.keys.name_hash(name) & HASH_MASK == 0
    }

    /// Bundles the small files of `batch`.
    pub(super) fn apply(&self, batch: &mut Batch) {
        let files = self.small_files(&batch.events);
        let mut changes: Vec<(Range<usize>, Vec<Event>)> = Vec::new();
        for bundle in self.bundles(&files).iter().filter(|bundle| bundle.len() > 1) {
            let bytes = bundle[0].bytes.start..bundle[bundle.len() - 1].bytes.end;
            let previous = previous(&batch.events, bundle).map(Box::new);
            let mut added = vec![Event::Bundle(Cut::new(bytes.clone()), previous)];
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
                    if matches!(event, Event::Damaged { .. }) {
                        batch.events.push(event);
                    }
                    if number + 1 == dropped.end {
                        changes.next();
                    }
                }
                _ => batch.events.push(event),
            }
        }
    }

    /// Returns the small files whose events are all in `events`.
    fn small_files(&self, events: &[Event]) -> Vec<SmallFile> {
        let mut files = Vec::new();
        // The first event of the current file, and the range of its bytes so far.
        let mut current: Option<(usize, Range<usize>)> = None;
        for (number, event) in events.iter().enumerate() {
            match event {
                Event::Begin(_) => current = Some((number, 0..0)),
                Event::Chunk(cut) => {
                    current = current.take().and_then(|(first, bytes)| match bytes.is_empty() {
                        true => Some((first, cut.start..cut.end())),
                        false => {
                            (bytes.end == cut.start).then_some((first, bytes.start..cut.end()))
                        }
                    });
                }
                Event::File(entry) => {
                    let found = current
                        .take()
                        .filter(|(_, bytes)| !bytes.is_empty() && bytes.len() <= self.file_len_max);
                    files.extend(found.map(|(first, bytes)| SmallFile {
                        events: first..number,
                        bytes,
                        may_end: self.may_end(&entry.name),
                    }));
                }
                Event::Damaged { .. } => {}
                // The file has a hole, or is not read to its end.
                _ => current = None,
            }
        }
        files
    }

    /// Groups adjacent files into bundles.
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

/// Returns the previous versions of the files of a bundle, one after the other. Returns `None` if
/// files without a previous version make up more than half of the bytes. Such a bundle is compared
/// by its edges, or with the chunks stored before it.
fn previous(events: &[Event], files: &[SmallFile]) -> Option<Content> {
    let mut previous: Vec<Segment> = Vec::new();
    let (mut len, mut known_len) = (0, 0);
    for file in files {
        len += file.bytes.len();
        let Event::Begin(Some(content)) = &events[file.events.start] else { continue };
        let Content::Segments(segments) = &**content else { continue };
        known_len += file.bytes.len();
        for segment in segments {
            // Adjacent parts of a chunk are merged, so that the chunk is read once.
            if let (
                Some(Segment::Chunk { fingerprint, offset, length }),
                Segment::Chunk { fingerprint: next, offset: begins, length: more },
            ) = (previous.last_mut(), segment)
                && (fingerprint == next && *offset + *length == *begins)
            {
                *length += more;
                continue;
            }
            previous.push(*segment);
        }
    }
    (known_len * 2 >= len).then_some(Content::Segments(previous))
}
