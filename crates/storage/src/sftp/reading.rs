//! Reads of files, and of folders with all that is below them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use russh_sftp::protocol::FileAttributes;

use super::connection::{Connection, Handle};
use super::failure::{Failure, Meaning};
use crate::error::Kind;
use crate::throttle::Direction;

/// The maximum allocation before bytes arrive, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;
/// Number of requests of one read that may be under way; the bytes are limited for all together.
const PIECES_AT_ONCE: usize = 64;
/// Number of requests for the entries of one folder that are under way.
const PAGES_AT_ONCE: usize = 4;
/// Number of folders that are listed at a time.
const FOLDERS_AT_ONCE: usize = 32;
/// The maximum number of folders in folders below a prefix: symbolic links may form a loop.
const DEPTH_MAX: usize = 8;

/// The bits of a mode that are the type of a file, and two of their values.
const TYPE_MASK: u32 = 0o170_000;
const TYPE_FOLDER: u32 = 0o040_000;
const TYPE_LINK: u32 = 0o120_000;
const TYPE_FILE: u32 = 0o100_000;

/// The number of entries that a listing may have: files, folders and links.
#[derive(Debug)]
pub(super) struct EntryRoom {
    max: usize,
    count: AtomicUsize,
}

impl EntryRoom {
    pub(super) fn new(max: usize) -> EntryRoom {
        EntryRoom { max, count: AtomicUsize::new(0) }
    }

    /// Takes the room for a page of `count` entries. A page without entries, which may be followed by
    /// another, is refused.
    fn take(&self, count: usize) -> Result<(), Failure> {
        if count == 0 {
            let text = "a part of a listing without entries, which is none of SFTP";
            return Err(Failure::new(Meaning::Final, text));
        }
        if self.count.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= self.max {
            return Ok(());
        }
        let text = format!("more than {} entries, the maximum of this listing", self.max);
        Err(Failure::new(Meaning::Final, text))
    }
}

/// A file in a listing.
#[derive(Debug)]
pub(super) struct Listed {
    /// The name below the root.
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) stamp_ns: Option<i64>,
}

/// A file or folder that a server describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) is_file: bool,
    pub(super) is_folder: bool,
    is_link: bool,
    pub(super) len: u64,
    pub(super) mode: Option<u32>,
    pub(super) stamp_ns: Option<i64>,
}

impl About {
    pub(super) fn of(attributes: &FileAttributes) -> About {
        // A server that does not tell the type has files only.
        let of_type = |wanted| attributes.permissions.map(|mode| mode & TYPE_MASK == wanted);
        About {
            is_file: of_type(TYPE_FILE).unwrap_or(true),
            is_folder: of_type(TYPE_FOLDER).unwrap_or(false),
            is_link: of_type(TYPE_LINK).unwrap_or(false),
            len: attributes.size.unwrap_or(0),
            mode: attributes.permissions.map(|mode| mode & 0o7777),
            stamp_ns: attributes.mtime.map(|seconds| i64::from(seconds) * 1_000_000_000),
        }
    }
}

impl Connection {
    /// Returns the path of an object or folder below the root.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Describes what is at `path`; `None` if nothing is.
    pub(super) async fn about(&self, path: &str) -> Result<Option<About>, Failure> {
        match self.ask(self.session.stat(path)).await {
            Ok(found) => Ok(Some(About::of(&found.attrs))),
            Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Reads a whole object of at most `len_max` bytes.
    pub(super) async fn read(self: &Arc<Self>, name: &str, len_max: u64) -> Result<Bytes, Failure> {
        let handle = self.open_to_read(&self.path(name)).await?;
        // Most objects are small, and come with the first answer.
        let first = (self.piece_len() as u64).min(len_max);
        let about = self.ask(self.session.fstat(handle.name()));
        let (about, first) = join(about, self.read_piece(&handle, 0..first)).await;
        let about = About::of(&about?.attrs);
        if !about.is_file {
            return Err(corrupt("not a regular file"));
        }
        let len = about.len;
        if len > len_max {
            return Err(corrupt(&format!("too long ({len} bytes, expected at most {len_max})")));
        }
        let first = match first {
            Err(failure) if failure.meaning == Meaning::Short => Bytes::new(),
            first => first?,
        };
        self.throttle.pass(Direction::Download, first.len()).await;
        let had = first.len() as u64;
        if had >= len {
            return Ok(first.slice(..usize::try_from(len).unwrap_or(usize::MAX).min(first.len())));
        }
        let mut bytes = with_capacity(len);
        bytes.extend_from_slice(&first);
        self.read_pieces(&handle, had..len, &mut bytes).await?;
        Ok(bytes.freeze())
    }

    /// Reads a range of an object.
    pub(super) async fn read_range(
        self: &Arc<Self>,
        name: &str,
        range: Range<u64>,
    ) -> Result<Bytes, Failure> {
        let shared = self.open_shared(&self.path(name)).await?;
        let handle = shared.get()?;
        let mut bytes = with_capacity(range.end.saturating_sub(range.start));
        self.read_pieces(handle, range, &mut bytes).await?;
        Ok(bytes.freeze())
    }

    async fn read_pieces(
        &self,
        handle: &Handle,
        range: Range<u64>,
        bytes: &mut BytesMut,
    ) -> Result<(), Failure> {
        let piece_len = self.piece_len();
        let starts = range.clone().step_by(piece_len);
        let pieces = starts.map(|start| {
            let end = start.saturating_add(piece_len as u64).min(range.end);
            self.read_whole_piece(handle, start..end)
        });
        let mut pieces = futures_util::stream::iter(pieces).buffered(PIECES_AT_ONCE);
        while let Some(piece) = pieces.next().await {
            piece?.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        Ok(())
    }

    /// Reads a range that is not longer than an answer may be, once the limit of the rate has room
    /// for it. A server may answer with less, and is asked for the rest.
    async fn read_whole_piece(
        &self,
        handle: &Handle,
        mut range: Range<u64>,
    ) -> Result<Vec<Bytes>, Failure> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        self.throttle.pass(Direction::Download, len).await;
        let mut parts = Vec::new();
        while !range.is_empty() {
            let part = self.read_piece(handle, range.clone()).await?;
            range.start += part.len() as u64;
            parts.push(part);
        }
        Ok(parts)
    }

    /// Reads from one to all bytes of a range; none only if the range has none.
    async fn read_piece(&self, handle: &Handle, range: Range<u64>) -> Result<Bytes, Failure> {
        let len = u32::try_from(range.end.saturating_sub(range.start)).unwrap_or(u32::MAX);
        if len == 0 {
            return Ok(Bytes::new());
        }
        let _moving = self.may_move(len as usize).await;
        let data = self.ask(self.session.read(handle.name(), range.start, len)).await?.data;
        if data.is_empty() || data.len() > len as usize {
            let text = format!("{} bytes came instead of {len}", data.len());
            return Err(Failure::new(Meaning::Final, text));
        }
        Ok(Bytes::from(data))
    }

    /// Lists the files below the folder `prefix` and its folders, for which `room` has to suffice.
    /// `take` is called for each file.
    pub(super) async fn list(
        self: &Arc<Self>,
        prefix: &str,
        room: &EntryRoom,
        mut take: impl FnMut(Listed) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut folders = vec![prefix.to_owned()];
        for _ in 0..DEPTH_MAX {
            let listings = folders.into_iter().map(|folder| self.list_folder(folder, room));
            let mut listings =
                futures_util::stream::iter(listings).buffer_unordered(FOLDERS_AT_ONCE);
            let mut below = Vec::new();
            while let Some(listing) = listings.next().await {
                for (name, about) in listing? {
                    if about.is_folder {
                        below.push(name);
                    } else if about.is_file {
                        let About { len, stamp_ns, .. } = about;
                        take(Listed { name, len, stamp_ns })?;
                    }
                }
            }
            folders = below;
            if folders.is_empty() {
                return Ok(());
            }
        }
        Err(Failure::new(Meaning::Final, format!("more than {DEPTH_MAX} folders in each other")))
    }

    /// Lists the entries of one folder, for which `room` has to suffice. None means that there is no
    /// such folder. Symbolic links are followed.
    pub(super) async fn list_folder(
        self: &Arc<Self>,
        folder: String,
        room: &EntryRoom,
    ) -> Result<Vec<(String, About)>, Failure> {
        let handle = match self.open_folder(&self.path(&folder)).await {
            Ok(handle) => handle,
            Err(failure) if failure.meaning == Meaning::Missing => return Ok(Vec::new()),
            Err(failure) => return Err(failure),
        };
        let (mut entries, mut links, mut is_over) = (Vec::new(), Vec::new(), false);
        while !is_over {
            let pages = (0..PAGES_AT_ONCE).map(|_| self.ask(self.session.readdir(handle.name())));
            for page in join_all(pages).await {
                let page = match page {
                    Err(failure) if failure.meaning == Meaning::Short => {
                        is_over = true;
                        continue;
                    }
                    page => page?,
                };
                room.take(page.files.len())?;
                for file in page.files.into_iter().filter(|file| !is_dots(&file.filename)) {
                    let about = About::of(&file.attrs);
                    let name = match folder.as_str() {
                        "" => file.filename,
                        _ => format!("{folder}/{}", file.filename),
                    };
                    if about.is_link { links.push(name) } else { entries.push((name, about)) }
                }
            }
        }
        for name in links {
            if let Some(about) = self.about(&self.path(&name)).await? {
                entries.push((name, about));
            }
        }
        Ok(entries)
    }
}

fn is_dots(name: &str) -> bool {
    matches!(name, "." | "..")
}

fn corrupt(text: &str) -> Failure {
    Failure { kind: Kind::Corrupt, ..Failure::new(Meaning::Final, text) }
}

fn with_capacity(len: u64) -> BytesMut {
    BytesMut::with_capacity(usize::try_from(len.min(CAPACITY_MAX)).unwrap_or(0))
}
