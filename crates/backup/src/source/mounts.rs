//! File systems: their identity, and how far the times of their files can be trusted.

use std::fmt::Debug;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const SECOND_NS: i64 = 1_000_000_000;

/// The minimum age, in nanoseconds, at which a file counts as settled.
const SETTLING_NS_MIN: i64 = 60 * SECOND_NS;

/// The minimum age, in nanoseconds, if the clock of another machine sets the times.
const REMOTE_SETTLING_NS_MIN: i64 = 24 * 3600 * SECOND_NS;

/// The properties of a file system that rule W3 needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// A text that distinguishes this file system from others; empty if nothing is known.
    pub identity: String,
    /// The interval, in nanoseconds, by which the times of a file must precede the start of a
    /// backup, so that each change after that start shows in them. `None` if no interval is long
    /// enough.
    pub settling_ns: Option<i64>,
    /// The same interval if only the time of modification is compared, and is trusted to show each
    /// change.
    pub mtime_settling_ns: Option<i64>,
    /// Set if ctime can be a copy of mtime, so that ctime shows no change unless it is later than
    /// mtime.
    pub copies_mtime: bool,
}

/// The trustworthiness of the times of files on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// Every change of a file sets its ctime by the clock of this machine. Nothing else sets it.
    Local,
    /// Every change of a file sets its ctime, by the clock of another machine.
    Remote,
    /// As `Remote` if ctime is later than mtime. Otherwise, ctime can be a copy of mtime.
    Doubtful,
    /// A change can leave ctime as it is, or nothing is known about the file system.
    Weak,
}

impl Times {
    /// Returns [`FileSystem::settling_ns`], given the result of [`FileSystems::writeback_ns`].
    fn settling_ns(self, writeback_ns: Option<i64>) -> Option<i64> {
        let writeback_ns = writeback_ns?;
        match self {
            Times::Local => Some(writeback_ns.max(SETTLING_NS_MIN)),
            Times::Remote | Times::Doubtful => Some(writeback_ns.max(REMOTE_SETTLING_NS_MIN)),
            Times::Weak => None,
        }
    }

    /// Returns [`FileSystem::mtime_settling_ns`], given the result of
    /// [`FileSystems::writeback_ns`].
    fn mtime_settling_ns(self, writeback_ns: Option<i64>) -> Option<i64> {
        match self {
            // The clock is unknown.
            Times::Weak => Times::Remote.settling_ns(writeback_ns),
            times => times.settling_ns(writeback_ns),
        }
    }
}

/// Information about file systems, from the system or from a test.
pub trait FileSystems: Debug + Send + Sync {
    /// Returns the file system of an open file or folder, which may be open for its path only.
    fn of(&self, fd: BorrowedFd<'_>) -> FileSystem;

    /// The longest time, in nanoseconds, that a modified page stays in memory before it is written.
    /// Stores through a shared mapping can leave the times of a file unchanged for as long, because
    /// only the first store after a page was written sets them. `None` if there is no such bound.
    fn writeback_ns(&self) -> Option<i64>;
}

/// The information of the Linux kernel, read from `/proc`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl FileSystems for Kernel {
    fn of(&self, fd: BorrowedFd<'_>) -> FileSystem {
        let Some(mount) = Mount::of(fd) else { return FileSystem::default() };
        let fsid = rustix::fs::fstatvfs(fd).map_or(0, |statistics| statistics.f_fsid);
        let times = times(&mount.kind);
        FileSystem {
            identity: mount.identity(fsid, &read_text),
            settling_ns: times.settling_ns(self.writeback_ns()),
            mtime_settling_ns: times.mtime_settling_ns(self.writeback_ns()),
            copies_mtime: times == Times::Doubtful,
        }
    }

    fn writeback_ns(&self) -> Option<i64> {
        writeback_ns(&read_text)
    }
}

/// The subtype and the source of a file system of the command `mount`. The type has the subtype only if
/// the program `fusermount3` mounts, which does so for users other than root.
const SNAPSHOTS_SUBTYPE: &str = "cutpoint";

/// Returns `true` if an open file or folder shows a snapshot, because its file system is one of the
/// command `mount`.
pub(super) fn shows_snapshots(fd: BorrowedFd<'_>) -> bool {
    Mount::of(fd).is_some_and(|mount| mount.shows_snapshots())
}

fn read_text(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Computes the bound from the settings of the kernel. A thread wakes at an interval and writes the
/// pages that have reached the expiry age, so the bound is the age and two intervals.
fn writeback_ns(read: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let number = |name: &str| -> Option<i64> {
        read(&format!("/proc/sys/vm/{name}"))?.trim().parse().ok().filter(|number| *number >= 0)
    };
    let expire = number("dirty_expire_centisecs")?;
    let interval = number("dirty_writeback_centisecs").filter(|interval| *interval > 0)?;
    interval.checked_mul(2)?.checked_add(expire)?.checked_mul(SECOND_NS / 100)
}

/// A line of `mountinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mount {
    /// The device number, as `major:minor`.
    device: String,
    /// The type, including the subtype of FUSE.
    kind: String,
    source: String,
    options: String,
}

impl Mount {
    fn of(fd: BorrowedFd<'_>) -> Option<Mount> {
        let info = read_text(&format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
        Mount::find(&read_text("/proc/self/mountinfo")?, id.trim())
    }

    /// Returns the mount with the number `id`. Source: `proc_pid_mountinfo(5)`.
    fn find(mountinfo: &str, id: &str) -> Option<Mount> {
        let line = mountinfo.lines().find(|line| line.split(' ').next() == Some(id))?;
        let (mount, rest) = line.split_once(" - ")?;
        let mut rest = rest.splitn(3, ' ').map(str::to_owned);
        Some(Mount {
            device: mount.split(' ').nth(2)?.to_owned(),
            kind: rest.next()?,
            source: rest.next()?,
            options: rest.next().unwrap_or_default(),
        })
    }

    fn shows_snapshots(&self) -> bool {
        match self.kind.strip_prefix("fuse") {
            Some("") => self.source == SNAPSHOTS_SUBTYPE,
            Some(subtype) => subtype.strip_prefix('.') == Some(SNAPSHOTS_SUBTYPE),
            None => false,
        }
    }

    /// Returns a text that distinguishes the file system from others and, as far as possible, stays
    /// the same from mount to mount. `fsid` is the number from `statvfs`, or 0 if there is none.
    fn identity(&self, fsid: u64, read: &dyn Fn(&str) -> Option<String>) -> String {
        let Mount { device, kind, source, options } = self;
        let by_number = || match fsid {
            0 => format!("{kind} {source}"),
            fsid => format!("{kind} {fsid:016x}"),
        };
        match kind.as_str() {
            // The lower half of the number depends on the UUID alone, the upper half also on the
            // subvolume. A new snapshot of a subvolume has the same files, so only the lower half
            // counts.
            "btrfs" if fsid != 0 => format!("{kind} {:08x}", fsid & 0xffff_ffff),
            // The name of the snapshot follows the `@`.
            "zfs" => format!("{kind} {}", source.split('@').next().unwrap_or_default()),
            // The number of an overlay is that of the file system of its upper folder.
            "overlay" => {
                let option = |name: &str| {
                    let value = options.split(',').find_map(|option| option.strip_prefix(name));
                    value.map(str::to_owned)
                };
                let layer = option("upperdir=").or_else(|| option("lowerdir="));
                format!("{} {}", by_number(), layer.unwrap_or_default())
            }
            // The number of these is that of the device or of the mount, and may change from boot
            // to boot.
            "xfs" | "f2fs" | "jfs" | "nilfs2" | "ntfs3" | "hfsplus" | "fuseblk" => {
                let properties = read(&format!("/run/udev/data/b{device}")).unwrap_or_default();
                let uuid = properties.lines().find_map(|line| line.strip_prefix("E:ID_FS_UUID="));
                match uuid {
                    Some(uuid) => format!("{kind} {uuid}"),
                    None => {
                        let image = read(&format!("/sys/dev/block/{device}/loop/backing_file"));
                        let image = image.unwrap_or_default();
                        format!("{} {}", by_number(), image.trim_end()).trim_end().to_owned()
                    }
                }
            }
            _ if times(kind) != Times::Local => format!("{kind} {source}"),
            _ => by_number(),
        }
    }
}

/// Returns the trustworthiness of the times of a file system of the type `kind`.
fn times(kind: &str) -> Times {
    match kind {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "bcachefs" | "f2fs" | "jfs" | "nilfs2"
        | "reiserfs" | "ntfs3" | "hfsplus" | "zfs" | "ubifs" | "jffs2" | "tmpfs" | "ramfs"
        | "devtmpfs" | "hugetlbfs" | "overlay" | "ecryptfs" => Times::Local,
        // These FUSE types forward the times of another file system and have no option to change
        // them.
        "nfs" | "nfs4" | "ceph" | "virtiofs" | "lustre" | "gfs2" | "ocfs2" | "fuse.mergerfs"
        | "fuse.gocryptfs" | "fuse.glusterfs" | "fuse.ceph-fuse" => Times::Remote,
        // Servers can lack a ctime, and some server programs return mtime in its place.
        "cifs" | "smb3" | "9p" | "fuseblk" => Times::Doubtful,
        // Among them: FUSE (sshfs, rclone), FAT, images such as squashfs and ISO 9660.
        _ => Times::Weak,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const NOTHING: &dyn Fn(&str) -> Option<String> = &|_| None;

    fn mount(line: &str) -> Mount {
        let id = line.split(' ').next().expect("an id");
        let others = "1 0 0:9 / /else rw - tmpfs none rw\n";
        Mount::find(&format!("{others}{line}\n{others}"), id).expect("the line is there")
    }

    #[test]
    fn writeback_bound_is_expiry_and_two_intervals() {
        let vm = |expire: &'static str, interval: &'static str| {
            writeback_ns(&move |path| match path {
                "/proc/sys/vm/dirty_expire_centisecs" => Some(format!("{expire}\n")),
                "/proc/sys/vm/dirty_writeback_centisecs" => Some(format!("{interval}\n")),
                _ => None,
            })
        };
        assert_eq!(vm("3000", "500"), Some(40 * SECOND_NS), "the usual values");
        assert_eq!(vm("60000", "60000"), Some(1800 * SECOND_NS), "a laptop");
        assert_eq!(vm("3000", "0"), None, "nothing is written by age");
        assert_eq!(vm("3000", "-1"), None, "no number of this kind");
        assert_eq!(vm("9223372036854775807", "1"), None, "longer than time");
        assert_eq!(writeback_ns(NOTHING), None, "no answer");
    }

    #[test]
    fn settling_takes_at_least_a_minute_or_a_day_on_remote_clocks() {
        let bound = |seconds: i64| Some(seconds * SECOND_NS);
        assert_eq!(Times::Local.settling_ns(bound(40)), bound(60));
        assert_eq!(Times::Local.settling_ns(bound(1800)), bound(1800));
        assert_eq!(Times::Remote.settling_ns(bound(40)), bound(86_400));
        assert_eq!(Times::Doubtful.settling_ns(bound(100_000)), bound(100_000));
        assert_eq!(Times::Weak.settling_ns(bound(40)), None);
        assert_eq!(Times::Weak.mtime_settling_ns(bound(40)), bound(86_400), "mtime is trusted");
        assert_eq!(Times::Local.mtime_settling_ns(bound(40)), bound(60));
        assert_eq!(Times::Weak.mtime_settling_ns(None), None, "without a bound nothing settles");
        assert_eq!(Times::Local.settling_ns(None), None, "without a bound nothing settles");
    }

    #[test]
    fn mountinfo_line_is_parsed_with_and_without_optional_fields() {
        let with =
            mount("36 35 98:0 /a /b\\040c rw,noatime master:1 shared:2 - ext4 /dev/a rw,x=1");
        let without = mount("36 35 98:0 /a /b rw - ext4 /dev/a rw,x=1");
        assert_eq!(with, without);
        assert_eq!((&*with.device, &*with.kind, &*with.source), ("98:0", "ext4", "/dev/a"));
        assert_eq!(Mount::find("36 35 98:0 /a", "36"), None, "cut short");
    }

    #[test]
    fn mount_of_snapshots_is_known_by_its_subtype_or_source() {
        for (kind, is_so) in [
            ("fuse.cutpoint cutpoint", true),
            ("fuse cutpoint", true),
            ("fuse.cutpoint other", true),
            ("fuse.sshfs cutpoint", false),
            ("fuseblk cutpoint", false),
            ("tmpfs cutpoint", false),
        ] {
            let mount = mount(&format!("5 1 0:39 / /home/me/snapshots ro - {kind} ro"));
            assert_eq!(mount.shows_snapshots(), is_so, "{kind}");
        }
    }

    #[test]
    fn identity_is_the_number_if_it_is_stable() {
        let ext4 = mount("5 1 8:1 / /mnt rw - ext4 /dev/sda1 rw");
        assert_eq!(ext4.identity(0xabc, NOTHING), "ext4 0000000000000abc");
        assert_eq!(ext4.identity(0, NOTHING), "ext4 /dev/sda1");
        let btrfs = mount("5 1 0:40 /@home /home rw - btrfs /dev/sda2 rw,subvol=/@home");
        let subvolumes = [0x0000_0101_1234_5678, 0x0000_0102_1234_5678];
        let [first, second] = subvolumes.map(|fsid| btrfs.identity(fsid, NOTHING));
        assert_eq!(first, second, "a snapshot has the files of its subvolume");
        let zfs = |name| mount(&format!("5 1 0:41 / /z rw - zfs {name} rw")).identity(7, NOTHING);
        assert_eq!(zfs("tank/home@monday"), zfs("tank/home"));
        assert_ne!(zfs("tank/home"), zfs("tank/other"));
    }

    #[test]
    fn identity_of_device_depends_on_its_content() {
        let xfs = mount("5 1 7:0 / /mnt rw - xfs /dev/loop0 rw");
        let with = |path: &'static str, text: &'static str| {
            xfs.identity(0x700, &move |asked| (asked == path).then(|| text.to_owned()))
        };
        let udev = |text| with("/run/udev/data/b7:0", text);
        assert_eq!(udev("S:x\nE:ID_FS_UUID=1234\nE:ID_FS_TYPE=xfs\n"), "xfs 1234");
        let image = |text| with("/sys/dev/block/7:0/loop/backing_file", text);
        assert_ne!(image("/one.img\n"), image("/two.img\n"));
        assert_eq!(xfs.identity(0x700, NOTHING), "xfs 0000000000000700");
    }

    #[test]
    fn identity_of_overlay_and_network_mount_is_their_location() {
        let overlay = |upper| {
            let line = format!("5 1 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir={upper}");
            mount(&line).identity(1, NOTHING)
        };
        assert_ne!(overlay("/a"), overlay("/b"), "two containers on one disk");
        let nfs = mount("5 1 0:51 / /n rw - nfs4 nas:/export rw,vers=4.2");
        // The kernel assigns a new number at each mount.
        assert_eq!(nfs.identity(1, NOTHING), nfs.identity(2, NOTHING));
        assert_eq!(nfs.identity(1, NOTHING), "nfs4 nas:/export");
    }

    #[test]
    fn times_of_unknown_file_system_are_weak() {
        assert_eq!(times("ext4"), Times::Local);
        assert_eq!(times("nfs4"), Times::Remote);
        assert_eq!(times("cifs"), Times::Doubtful);
        for kind in ["fuse.sshfs", "fuse.rclone", "fuse", "vfat", "exfat", "squashfs", "", "new"] {
            assert_eq!(times(kind), Times::Weak, "{kind}");
        }
    }

    #[test]
    fn kernel_identifies_file_system_of_crate_folder() {
        let folder = fs::File::open(env!("CARGO_MANIFEST_DIR")).expect("it opens");
        let found = Kernel.of(folder.as_fd());
        assert_ne!(found, FileSystem::default(), "something is known of it");
        assert_eq!(found, Kernel.of(folder.as_fd()), "it is the same when asked again");
    }
}
