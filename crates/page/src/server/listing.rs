//! The rows of folders. A folder is read once, in full; its rows are kept, so that a slice of any order
//! takes no time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use serde_json::{Value, json};

use super::lock;
use super::text::shown;
use crate::chart::encoded;

/// The maximum number of rows of a folder. Those behind them are not shown; a search finds them.
const ROWS_MAX: usize = 400_000;
/// The maximum number of rows in all folders that are kept.
const KEPT_ROWS_MAX: usize = 800_000;
/// The maximum number of folders that are kept.
const KEPT_FOLDERS_MAX: usize = 64;

/// An entry of a folder, with what a list shows.
#[derive(Debug)]
struct Row {
    name: Box<[u8]>,
    kind: EntryKind,
    mode: u32,
    size: u64,
    /// Milliseconds since 1970; `None` for a folder above the sources, which has no time.
    time: Option<i64>,
    /// The target of a symbolic link.
    target: Option<Box<[u8]>>,
    has_defect: bool,
}

/// The order of rows. Folders come first in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    pub(super) by: By,
    pub(super) is_descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    Name,
    Size,
    Time,
}

/// The numbers of rows in an order.
type Positions = Arc<Vec<u32>>;

/// The rows of a folder.
#[derive(Debug)]
pub(super) struct Listing {
    rows: Vec<Row>,
    /// The number of entries that are not among the rows.
    pub(super) cut_count: usize,
    /// The message of an error that has ended the listing.
    pub(super) error: Option<String>,
    orders: Mutex<HashMap<Order, Positions>>,
}

/// The folders that were read last.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<Vec<(Content, Arc<Listing>)>>);

impl Folders {
    /// Returns the rows of the folder with the tree `content`.
    pub(super) fn get(&self, reader: &Reader, content: &Content) -> Arc<Listing> {
        let mut kept = lock(&self.0);
        if let Some(at) = kept.iter().position(|(known, _)| known == content) {
            let found = kept.remove(at);
            let listing = Arc::clone(&found.1);
            kept.push(found);
            return listing;
        }
        drop(kept);
        let listing = Arc::new(Listing::read(reader, content));
        let mut kept = lock(&self.0);
        kept.push((content.clone(), Arc::clone(&listing)));
        let mut row_count: usize = kept.iter().map(|(_, listing)| listing.rows.len()).sum();
        while kept.len() > 1 && (row_count > KEPT_ROWS_MAX || kept.len() > KEPT_FOLDERS_MAX) {
            row_count -= kept.remove(0).1.rows.len();
        }
        listing
    }
}

impl Listing {
    fn read(reader: &Reader, content: &Content) -> Listing {
        let mut listing =
            Listing { rows: Vec::new(), cut_count: 0, error: None, orders: Mutex::default() };
        for entry in reader.tree(content) {
            match entry {
                Ok(_) if listing.rows.len() >= ROWS_MAX => listing.cut_count += 1,
                Ok(entry) => listing.rows.push(Row::of(entry)),
                Err(error) => {
                    listing.error = Some(error.to_string());
                    break;
                }
            }
        }
        listing
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows `from..from + count` of an order.
    pub(super) fn slice(&self, order: Order, from: usize, count: usize) -> Vec<Value> {
        let positions = self.in_order(order);
        let rows = positions.iter().skip(from).take(count);
        rows.map(|at| self.rows[*at as usize].described()).collect()
    }

    /// Returns the numbers of the rows in an order.
    fn in_order(&self, order: Order) -> Positions {
        if let Some(known) = lock(&self.orders).get(&order) {
            return Arc::clone(known);
        }
        let mut positions: Vec<u32> = (0..).take(self.rows.len()).collect();
        let row = |at: &u32| &self.rows[*at as usize];
        let is_leaf = |at: &u32| row(at).kind != EntryKind::Folder;
        // Rows are sorted by name, and a stable sort keeps that.
        match order.by {
            By::Name => {}
            By::Size => positions.sort_by_key(|at| row(at).size),
            By::Time => positions.sort_by_key(|at| row(at).time),
        }
        if order.is_descending {
            positions.reverse();
        }
        positions.sort_by_key(is_leaf);
        let positions = Arc::new(positions);
        lock(&self.orders).insert(order, Arc::clone(&positions));
        positions
    }
}

impl Row {
    fn of(entry: Entry) -> Row {
        let target = match (&entry.content, entry.kind) {
            (Content::Raw(target), EntryKind::Symlink) => Some(target.as_slice().into()),
            _ => None,
        };
        Row {
            kind: entry.kind,
            mode: entry.mode,
            size: if entry.kind == EntryKind::File { entry.size } else { 0 },
            time: time_of(&entry),
            target,
            has_defect: entry.defect.is_some(),
            name: entry.name.into_boxed_slice(),
        }
    }

    fn described(&self) -> Value {
        let mut value = json!({
            "name": shown(&self.name),
            "link": encoded(&self.name),
            "kind": kind_name(self.kind),
            "mode": format!("{:04o}", self.mode),
            "time": self.time,
        });
        if self.kind == EntryKind::File {
            value["size"] = self.size.into();
        }
        if let Some(target) = &self.target {
            value["target"] = shown(target).into();
        }
        if self.has_defect {
            value["defect"] = true.into();
        }
        value
    }
}

/// Returns the time of an entry in milliseconds since 1970.
pub(super) fn time_of(entry: &Entry) -> Option<i64> {
    let time = entry.mtime;
    let milliseconds = time.seconds.saturating_mul(1000) + i64::from(time.nanoseconds / 1_000_000);
    (!entry.is_above_sources()).then_some(milliseconds)
}

/// Returns the name of a kind for the page.
pub(super) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Folder => "folder",
        EntryKind::Symlink => "link",
        EntryKind::CharDevice | EntryKind::BlockDevice => "device",
        EntryKind::Fifo => "pipe",
        EntryKind::Socket => "socket",
    }
}
