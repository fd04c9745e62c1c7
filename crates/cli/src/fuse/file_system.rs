//! The requests of the kernel, and their answers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use cutpoint_backup::browse::{Attributes, Browser};
use cutpoint_repository::{EntryKind, Time};
use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyXattr,
    Request,
};

/// The time for which the kernel need not ask again about a snapshot's entries, which never change.
const CONSTANT_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The time for which the kernel need not ask again about the folders at the top.
const TOP_TTL: Duration = Duration::from_secs(1);
/// The maximum number of requests that the kernel sends ahead of readers.
const BACKGROUND_MAX: u16 = 64;
/// The number of files that are given to the kernel before the answer to a request.
const FIRST_COUNT: usize = 2;
/// The values of `whence` of `lseek`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A file system of snapshots.
#[derive(Debug)]
pub(super) struct SnapshotFileSystem {
    browser: Arc<Browser>,
    /// The way to the kernel's cache, once the folder is mounted.
    notifier: Arc<OnceLock<Notifier>>,
    /// Set if the kernel is to apply ACLs.
    has_acls: bool,
    /// Set if the kernel opens folders by itself once it is told so.
    opens_folders: bool,
}

impl SnapshotFileSystem {
    pub(super) fn new(browser: Arc<Browser>, has_acls: bool) -> SnapshotFileSystem {
        SnapshotFileSystem { browser, notifier: Arc::default(), has_acls, opens_folders: false }
    }

    /// Answers a request by `answer`, and gives complete files to the kernel before it asks for them:
    /// the first ones before the answer, so that it does not ask for them at once.
    fn answer_and_hand_over(
        &self,
        answer: impl FnOnce(),
        mut files: impl Iterator<Item = Option<(u64, Vec<u8>)>>,
    ) {
        let Some(notifier) = self.notifier.get() else { return answer() };
        let store = |(node, bytes): (u64, Vec<u8>)| {
            // The kernel asks for what it does not take.
            notifier.store(INodeNo(node), 0, &bytes).ok();
        };
        files.by_ref().take(FIRST_COUNT).flatten().for_each(store);
        answer();
        files.flatten().for_each(store);
    }

    /// Has the kernel drop what it keeps of the folder `node`, which can change and whose listing
    /// ends.
    fn forget_listing(&self, node: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_inode(node, 0, 0).ok();
        }
    }

    /// Returns the place for the session's notifier.
    pub(super) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn system_time(time: Time) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    let fraction = Duration::from_nanos(time.nanoseconds.into());
    whole.and_then(|whole| whole.checked_add(fraction)).unwrap_or(epoch)
}

fn file_type(kind: EntryKind) -> FileType {
    match kind {
        EntryKind::File => FileType::RegularFile,
        EntryKind::Folder => FileType::Directory,
        EntryKind::Symlink => FileType::Symlink,
        EntryKind::CharDevice => FileType::CharDevice,
        EntryKind::BlockDevice => FileType::BlockDevice,
        EntryKind::Fifo => FileType::NamedPipe,
        EntryKind::Socket => FileType::Socket,
    }
}

/// Returns a device number in the form of the kernel: 12 bits for the major number and 20 for the
/// minor one.
fn device(number: u64) -> u32 {
    let [major, minor] = [number >> 32, number & 0xffff_ffff];
    let device = (minor & 0xff) | (major << 8 & 0xf_ff00) | (minor & 0xf_ff00) << 12;
    u32::try_from(device & 0xffff_ffff).unwrap_or(0)
}

fn as_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.node),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: system_time(attributes.mtime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(attributes.kind),
        perm: u16::try_from(attributes.mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(attributes.links).unwrap_or(u32::MAX),
        uid: attributes.user_id,
        gid: attributes.group_id,
        rdev: device(attributes.device_number),
        blksize: 4096,
        flags: 0,
    }
}

fn ttl(attributes: &Attributes) -> &'static Duration {
    if attributes.is_constant { &CONSTANT_TTL } else { &TOP_TTL }
}

/// The generation of all nodes: a number always stands for the same node.
const GENERATION: Generation = Generation(0);

/// The numbers of `.` and `..` in a listing, where no program looks at them.
const DOTS: [&str; 2] = [".", ".."];

impl Filesystem for SnapshotFileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            // Properties come with the names, because they cost less than a request for each.
            | InitFlags::FUSE_DO_READDIRPLUS;
        if self.has_acls {
            wanted |= InitFlags::FUSE_POSIX_ACL;
        }
        self.opens_folders = config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        // An older kernel goes without.
        config.add_capabilities(wanted & config.capabilities()).ok();
        config.set_max_background(BACKGROUND_MAX).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.browser.lookup(parent.0, name.as_bytes()) {
            Ok(found) => reply.entry(ttl(&found), &as_attr(&found), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.browser.forget(node.0, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.browser.attributes(node.0) {
            Ok(found) => reply.attr(ttl(&found), &as_attr(&found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.browser.read_link(node.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Tells the kernel not to ask again: every file can be opened, and what was read once can be
    /// kept.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    // sizes: table, the library defines the parameters
    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = match self.browser.read(node.0, offset, usize::try_from(size).unwrap_or(0)) {
            Ok(bytes) => bytes,
            Err(error) => return reply.error(errno(error)),
        };
        let following = self.browser.follow_read(node.0, offset);
        self.answer_and_hand_over(|| reply.data(&bytes), following);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    /// Tells the kernel not to ask again, if it can do without: every folder can be opened, and what
    /// was listed once can be kept, but for the folders at the top (`forget_listing`).
    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.opens_folders {
            return reply.error(Errno::ENOSYS);
        }
        match self.browser.attributes(node.0) {
            Ok(found) if found.is_constant => {
                let kept = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
                reply.opened(FileHandle(0), kept);
            }
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for (number, name) in (1..).zip(DOTS).filter(|(number, _)| *number > offset) {
            if reply.add(node, number, FileType::Directory, name) {
                return reply.ok();
            }
        }
        let (mut added, mut is_at_end) = (Vec::new(), true);
        let listed = self.browser.list(node.0, offset, &mut |entry| {
            is_at_end = false;
            let Attributes { node, kind, .. } = *entry.attributes;
            let name = OsStr::from_bytes(entry.name);
            let is_full = reply.add(INodeNo(node), entry.next, file_type(kind), name);
            added.extend((!is_full).then_some(node));
            !is_full
        });
        // The kernel does not refer to the nodes of such a listing.
        for node in added {
            self.browser.forget(node, 1);
        }
        if is_at_end && !self.browser.attributes(node.0).is_ok_and(|found| found.is_constant) {
            self.forget_listing(node);
        }
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (folder, is_constant) = match self.browser.attributes(node.0) {
            Ok(folder) => (as_attr(&folder), folder.is_constant),
            Err(error) => return reply.error(errno(error)),
        };
        for (number, name) in (1..).zip(DOTS).filter(|(number, _)| *number > offset) {
            if reply.add(node, number, name, &TOP_TTL, &folder, GENERATION) {
                return reply.ok();
            }
        }
        let mut is_at_end = true;
        let listed = self.browser.list(node.0, offset, &mut |entry| {
            is_at_end = false;
            let attr = as_attr(entry.attributes);
            let name = OsStr::from_bytes(entry.name);
            !reply.add(attr.ino, entry.next, name, ttl(entry.attributes), &attr, GENERATION)
        });
        if !is_at_end || listed.is_err() {
            return match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            };
        }
        if !is_constant {
            self.forget_listing(node);
        }
        self.answer_and_hand_over(|| reply.ok(), self.browser.follow_listing(node.0));
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.browser.xattrs(node.0) {
            Ok(xattrs) => match xattrs.iter().find(|(known, _)| known == name.as_bytes()) {
                Some((_, value)) => reply_xattr(value, size, reply),
                None => reply.error(Errno::ENODATA),
            },
            Err(error) => reply.error(errno(error)),
        }
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        match self.browser.xattrs(node.0) {
            Ok(xattrs) => {
                let names: Vec<u8> =
                    xattrs.into_iter().flat_map(|(name, _)| [name, vec![0]].concat()).collect();
                reply_xattr(&names, size, reply);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Tells the kernel not to ask again: who may enter the folder may read everything, unless the
    /// kernel itself looks at permissions.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(start) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        if !matches!(whence, SEEK_DATA | SEEK_HOLE) {
            return reply.error(Errno::EINVAL);
        }
        match self.browser.seek(node.0, start, whence == SEEK_HOLE) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

/// Answers with `value`, or with its length if `size` is 0.
fn reply_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_have_the_form_of_the_kernel() {
        for (major, minor) in [(0_u32, 0_u32), (1, 3), (8, 17), (259, 0x12345), (0xfff, 0xf_ffff)] {
            let number = device(u64::from(major) << 32 | u64::from(minor));
            let number = u64::from(number);
            let found = (number >> 8 & 0xfff, (number & 0xff) | (number >> 12 & 0xf_ff00));
            assert_eq!(found, (u64::from(major), u64::from(minor)), "{major}:{minor}");
        }
    }

    #[test]
    fn any_time_can_be_shown() {
        let time = |seconds, nanoseconds| system_time(Time { seconds, nanoseconds });
        let before = time(-2, 500_000_000);
        let since = SystemTime::UNIX_EPOCH.duration_since(before).expect("it is before");
        assert_eq!(since, Duration::from_millis(1500), "before 1970");
        for seconds in [i64::MIN, i64::MAX] {
            time(seconds, 999_999_999);
        }
    }
}
