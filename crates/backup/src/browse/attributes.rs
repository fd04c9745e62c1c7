//! The properties of a node.

use cutpoint_repository::{EntryKind, Time};

/// The properties of a node, as a file system shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The number of the node. Names of one file have the same number.
    pub node: u64,
    /// The kind.
    pub kind: EntryKind,
    /// Permission bits, including set-user-id, set-group-id and sticky: 12 bits.
    pub mode: u32,
    /// The id of the owner on this system.
    pub user_id: u32,
    /// The id of the group on this system.
    pub group_id: u32,
    /// The size in bytes: of the content of a file, of the target of a symbolic link, otherwise 0.
    pub size: u64,
    /// The number of blocks of 512 bytes that a restored file would take.
    pub blocks: u64,
    /// The time of the last change of the content.
    pub mtime: Time,
    /// The time of the last change of content or metadata.
    pub ctime: Time,
    /// The number of names; 1 for folders.
    pub links: u64,
    /// The device number of a character or block device (`major << 32 | minor`), otherwise 0.
    pub device_number: u64,
    /// Set if the properties never change, as those of everything in a snapshot.
    pub is_constant: bool,
}
