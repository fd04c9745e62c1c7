//! The kinds of objects: folders, codes and limits.

/// The kind of an object. Its code is part of the object's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// The settings of the repository.
    Config,
    /// The keyring, wrapped.
    Key,
    /// The announcement that a writer has begun.
    Ticket,
    /// The outcome of a writer.
    Commit,
    /// The containers that a prune has condemned, and the segments that it has published.
    Prune,
    /// An index segment: the locations of chunks.
    Segment,
    /// A container of file chunks.
    Data,
    /// A container of trees and recipes.
    Meta,
    /// Candidates for similarity search.
    Similarity,
    /// Parity data, from which a damaged container can be rebuilt.
    Parity,
    /// Copies of many commits and prune records: a part of the view checkpoint.
    View,
}

impl ObjectKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [ObjectKind; 11] = [
        ObjectKind::Config,
        ObjectKind::Key,
        ObjectKind::Ticket,
        ObjectKind::Commit,
        ObjectKind::Prune,
        ObjectKind::Segment,
        ObjectKind::Data,
        ObjectKind::Meta,
        ObjectKind::Similarity,
        ObjectKind::Parity,
        ObjectKind::View,
    ];

    /// Returns the code of this kind in headers.
    pub fn code(self) -> u8 {
        match self {
            ObjectKind::Config => 1,
            ObjectKind::Key => 2,
            ObjectKind::Ticket => 3,
            ObjectKind::Commit => 4,
            ObjectKind::Prune => 5,
            ObjectKind::Segment => 6,
            ObjectKind::Data => 7,
            ObjectKind::Meta => 8,
            ObjectKind::Similarity => 9,
            ObjectKind::Parity => 10,
            ObjectKind::View => 11,
        }
    }

    /// Returns the folder that holds objects of this kind.
    pub fn folder(self) -> &'static str {
        match self {
            ObjectKind::Config => "config",
            ObjectKind::Key => "keys",
            ObjectKind::Ticket => "tickets",
            ObjectKind::Commit => "commits",
            ObjectKind::Prune => "prunes",
            ObjectKind::Segment => "index",
            ObjectKind::Data => "data",
            ObjectKind::Meta => "meta",
            ObjectKind::Similarity => "similarity",
            ObjectKind::Parity => "parity",
            ObjectKind::View => "views",
        }
    }

    /// Returns the maximum length of an object of this kind in bytes (`docs/format.md`, section 2).
    /// Writers never exceed this length, and readers refuse longer objects without reading them.
    pub fn len_max(self) -> u64 {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        match self {
            ObjectKind::Key | ObjectKind::Ticket => 16 * KIB,
            ObjectKind::Config => 64 * KIB,
            ObjectKind::View => 48 * MIB,
            ObjectKind::Commit | ObjectKind::Prune => 64 * MIB,
            ObjectKind::Segment | ObjectKind::Data | ObjectKind::Meta | ObjectKind::Similarity => {
                128 * MIB
            }
            ObjectKind::Parity => 160 * MIB,
        }
    }

    /// Returns the maximum number of names in one listing of this kind (`docs/format.md`, section
    /// 2). A longer listing ends with an error.
    pub fn count_max(self) -> usize {
        match self {
            ObjectKind::Key | ObjectKind::Config => 10_000,
            ObjectKind::View => 100_000,
            ObjectKind::Ticket | ObjectKind::Commit | ObjectKind::Prune => 1_000_000,
            ObjectKind::Segment | ObjectKind::Similarity => 4_000_000,
            ObjectKind::Data | ObjectKind::Meta | ObjectKind::Parity => 16_000_000,
        }
    }

    /// Returns the kind of the objects in the folder that the path or prefix `path` begins with;
    /// `None` if that is not a folder of objects.
    pub fn of_path(path: &str) -> Option<ObjectKind> {
        let folder = path.split('/').next().unwrap_or_default();
        ObjectKind::ALL.into_iter().find(|kind| kind.folder() == folder)
    }
}
