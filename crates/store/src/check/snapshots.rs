//! Snapshots: does everything that they reach exist?

use std::collections::{HashMap, HashSet};

use minicbor::Decoder;

use super::{AFFECTED_MAX, Check, FindingKind};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::segment::ContainerRecord;
use crate::format::tree::{Entry, EntryKind};
use crate::index::Scope;
use crate::name::PartName;
use crate::reader::Reader;

type Containers = HashMap<(Class, PartName), ContainerRecord>;

struct Walk<'a> {
    check: &'a Check<'a>,
    reader: &'a Reader,
    containers: &'a Containers,
    /// Trees and recipes that were looked at: each is, once.
    seen: HashSet<Fingerprint>,
    references: u64,
}

/// Walks every snapshot; then, where something is lost, names the paths that need it.
pub(super) fn check(check: &Check<'_>, reader: &Reader, containers: &Containers) -> Result<()> {
    let view = reader.view();
    let mut walk = Walk { check, reader, containers, seen: HashSet::new(), references: 0 };
    let taken = view.taken();
    let snapshots: Vec<_> = view
        .commits
        .iter()
        .filter(|(id, _)| !taken.contains(id))
        .filter_map(|(id, commit)| Some((*id, commit.snapshot()?)))
        .collect();
    for (_, snapshot) in &snapshots {
        walk.tree(&snapshot.root)?;
    }
    let references = walk.references;
    check.count(|report| {
        report.snapshot_count = snapshots.len() as u64;
        report.reference_count = references;
    });
    let is_damaged = {
        let bad = check.bad.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        !bad.is_empty()
    };
    if is_damaged {
        let mut affected = 0;
        for (id, snapshot) in &snapshots {
            let at = format!("snapshot {}: ", id.short());
            name_affected(check, reader, &snapshot.root, &at, &mut affected)?;
        }
        if affected > AFFECTED_MAX {
            let message = format!("{} more paths are affected", affected - AFFECTED_MAX);
            check.finding(FindingKind::Affected, "snapshots", message);
        }
    }
    Ok(())
}

impl Walk<'_> {
    /// Reads a metadata chunk; `None` where it has been looked at, or is a finding.
    fn meta(&mut self, fingerprint: Fingerprint) -> Result<Option<Vec<u8>>> {
        self.check.stop_if_cancelled()?;
        if !self.seen.insert(fingerprint) {
            return Ok(None);
        }
        self.references += 1;
        match self.reader.chunk(Class::Meta, &fingerprint) {
            Ok(chunk) => Ok(Some(chunk.to_vec())),
            Err(error) => self.lost(Class::Meta, fingerprint, error).map(|()| None),
        }
    }

    fn lost(&self, class: Class, fingerprint: Fingerprint, error: Error) -> Result<()> {
        if error.kind() == Kind::Media {
            return Err(error);
        }
        // A chunk that the containers' check has named is not named again.
        if self.check.bad(class, fingerprint) {
            self.check.failed(format!("{class} chunk {fingerprint}"), &error);
        }
        Ok(())
    }

    fn malformed(&self, what: &str, fingerprint: Fingerprint, error: &Error) {
        self.check.bad(Class::Meta, fingerprint);
        self.check.failed(format!("{what} {fingerprint}"), error);
    }

    /// The segments of level 0 of a content, each recipe chunk once.
    fn segments(&mut self, content: &Content) -> Result<Vec<Segment>> {
        let mut waiting = match content {
            Content::Empty | Content::Raw(_) => return Ok(Vec::new()),
            Content::Segments(segments) => return Ok(segments.clone()),
            Content::Recipe(fingerprint) => vec![*fingerprint],
        };
        let mut found = Vec::new();
        while let Some(fingerprint) = waiting.pop() {
            let Some(bytes) = self.meta(fingerprint)? else { continue };
            match RecipeChunk::decode(&bytes) {
                Ok(recipe) if recipe.level == 0 => {
                    // Not all of a large file at once.
                    found.extend(recipe.segments);
                }
                Ok(recipe) => waiting.extend(recipe.segments.iter().filter_map(|s| match s {
                    Segment::Chunk { fingerprint, .. } => Some(*fingerprint),
                    _ => None,
                })),
                Err(error) => self.malformed("recipe", fingerprint, &error),
            }
        }
        Ok(found)
    }

    fn tree(&mut self, content: &Content) -> Result<()> {
        for segment in self.segments(content)? {
            let Segment::Chunk { fingerprint, .. } = segment else { continue };
            let Some(bytes) = self.meta(fingerprint)? else { continue };
            let d = &mut Decoder::new(&bytes);
            while d.position() < bytes.len() {
                match Entry::decode(d) {
                    Ok(entry) if entry.kind == EntryKind::Folder => self.tree(&entry.content)?,
                    Ok(entry) => self.file(&entry)?,
                    Err(error) => {
                        self.malformed("tree", fingerprint, &error);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry) -> Result<()> {
        for segment in self.segments(&entry.content)? {
            let Segment::Chunk { fingerprint, offset, length } = segment else { continue };
            self.references += 1;
            if self.check.is_bad(Class::Data, fingerprint) {
                continue;
            }
            let found = self.reader.index().find(Class::Data, &fingerprint, Scope::Read);
            let location = match found {
                Ok(Some(location)) => location,
                Ok(None) => {
                    let error = Error::missing("", "no container that the index names has it");
                    self.lost(Class::Data, fingerprint, error)?;
                    continue;
                }
                Err(error) => {
                    self.lost(Class::Data, fingerprint, error)?;
                    continue;
                }
            };
            let container = location.loaded.container.name;
            let is_there = self.containers.contains_key(&(Class::Data, container));
            let is_long = u64::from(location.chunk().chunk_len) >= offset.saturating_add(length);
            if !is_there || !is_long {
                let message = format!("container {container} does not hold all of it");
                self.lost(Class::Data, fingerprint, Error::missing("", message))?;
            }
        }
        Ok(())
    }
}

/// Names every path below `content` that cannot be restored.
fn name_affected(
    check: &Check<'_>,
    reader: &Reader,
    content: &Content,
    at: &str,
    affected: &mut u64,
) -> Result<()> {
    let mut name = |path: &str, message: &str| {
        *affected += 1;
        if *affected <= AFFECTED_MAX {
            check.finding(FindingKind::Affected, path, message);
        }
    };
    let mut folders = Vec::new();
    for entry in reader.tree(content) {
        check.stop_if_cancelled()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.kind() == Kind::Media => return Err(error),
            Err(_) => {
                name(&format!("{at}/"), "some of this folder cannot be listed");
                break;
            }
        };
        let path = format!("{at}/{}", String::from_utf8_lossy(&entry.name));
        if entry.kind == EntryKind::Folder {
            folders.push((path, entry.content));
            continue;
        }
        let is_lost = reader.segments(&entry.content).any(|segment| match segment {
            Ok(Segment::Chunk { fingerprint, .. }) => check.is_bad(Class::Data, fingerprint),
            Ok(_) => false,
            Err(_) => true,
        });
        if is_lost {
            name(&path, "cannot be restored from this snapshot");
        }
    }
    for (path, content) in folders {
        name_affected(check, reader, &content, &path, affected)?;
    }
    Ok(())
}
