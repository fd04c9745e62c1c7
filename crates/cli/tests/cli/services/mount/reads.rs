//! Reads: by several threads, during a prune, of damaged files, and in little memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use cutpoint_testing::SplitMix64;

use super::{Mounted, names, sandbox, until};
use crate::failures::flip;
use crate::sandbox::Sandbox;

/// The memory that the command may take.
const MEMORY_KIB_MAX: u64 = 150 * 1024;

fn write(sandbox: &Sandbox, name: &str, bytes: &[u8]) {
    let path = sandbox.path("source").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, bytes).expect("written");
}

#[test]
fn threads_read_the_same_bytes_at_once() {
    let Some(sandbox) = sandbox() else { return };
    let large = SplitMix64::bytes(1, 20_000_000);
    write(&sandbox, "large", &large);
    for number in 0..500 {
        write(&sandbox, &format!("small/{number}"), &SplitMix64::bytes(number, 3000));
    }
    sandbox.backup("source");
    let mounted = Mounted::new(&sandbox, &["--threads", "4"]);
    let file = mounted.latest(&sandbox.path("source/large"));
    let small = mounted.latest(&sandbox.path("source/small"));
    thread::scope(|scope| {
        for reader in 0..8 {
            let (large, file, small) = (&large, &file, &small);
            scope.spawn(move || {
                let file = File::open(file).expect("opened");
                let mut random = SplitMix64::new(reader);
                for number in 0..200 {
                    let number_of = |bytes: Vec<u8>| {
                        let bytes = bytes.try_into().expect("8 bytes");
                        usize::try_from(u64::from_le_bytes(bytes) >> 8).expect("it fits")
                    };
                    let start = number_of(random.take(8)) % large.len();
                    let len = (number_of(random.take(8)) % 300_000).min(large.len() - start);
                    let mut bytes = vec![0; len];
                    file.read_exact_at(&mut bytes, start as u64).expect("read");
                    assert!(bytes == large[start..start + len], "{len} bytes at {start}");
                    let wanted = (number * 7 + reader * 31) % 500;
                    let bytes = fs::read(small.join(wanted.to_string())).expect("read");
                    assert!(bytes == SplitMix64::bytes(wanted, 3000), "file {wanted}");
                }
            });
        }
    });
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}

/// The kernel gets files before it asks for them from such readers.
#[test]
fn readers_of_whole_folders_get_the_same_bytes_at_once() {
    let Some(sandbox) = sandbox() else { return };
    for number in 0..600 {
        let path = format!("{:02}/{number}", number / 15);
        write(&sandbox, &path, &SplitMix64::bytes(number, 3000));
    }
    sandbox.backup("source");
    let mounted = Mounted::new(&sandbox, &[]);
    let source = mounted.latest(&sandbox.path("source"));
    thread::scope(|scope| {
        for reader in 0..8 {
            let source = &source;
            scope.spawn(move || {
                for folder in 0..40 {
                    let folder = source.join(format!("{:02}", (folder + reader * 10) % 40));
                    for entry in fs::read_dir(folder).expect("listed") {
                        let path = entry.expect("an entry").path();
                        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
                        let expected = SplitMix64::bytes(name.parse().expect("a number"), 3000);
                        assert!(fs::read(&path).expect("read") == expected, "{name}");
                    }
                }
            });
        }
    });
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}

/// Returns the names of the containers of data.
fn containers(sandbox: &Sandbox) -> Vec<String> {
    let all = sandbox.json(["debug", "--list"]);
    let names = all.iter().filter_map(|object| object["name"].as_str());
    names.filter(|name| name.starts_with("data/")).map(str::to_owned).collect()
}

#[test]
fn open_file_is_read_across_a_prune_that_moves_it() {
    let Some(sandbox) = sandbox() else { return };
    let kept = SplitMix64::bytes(1, 12_000_000);
    write(&sandbox, "a", &SplitMix64::bytes(2, 6_000_000));
    write(&sandbox, "b", &kept);
    write(&sandbox, "c", &SplitMix64::bytes(3, 6_000_000));
    let first = sandbox.backup("source");
    fs::remove_file(sandbox.path("source/a")).expect("removed");
    fs::remove_file(sandbox.path("source/c")).expect("removed");
    sandbox.backup("source");
    let mounted = Mounted::new(&sandbox, &[]);
    let file = File::open(mounted.latest(&sandbox.path("source/b"))).expect("opened");
    let mut begin = vec![0; 1_000_000];
    file.read_exact_at(&mut begin, 0).expect("read");
    assert!(begin == kept[..begin.len()], "the beginning");
    let before = containers(&sandbox);
    sandbox.run(["forget", &first]).well();
    sandbox.run(["prune", "--settle", "0s", "--unused-max", "0%", "--yes"]).well();
    let after = containers(&sandbox);
    assert!(before.iter().all(|name| !after.contains(name)), "moved: {before:?} {after:?}");
    let mut whole = vec![0; kept.len()];
    file.read_exact_at(&mut whole, 0).expect("read after the prune");
    assert!(whole == kept, "all of it");
    drop(file);
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("b:"), "no problem: {log}");
}

#[test]
fn damaged_range_alone_cannot_be_read() {
    let Some(sandbox) = sandbox() else { return };
    let bytes = SplitMix64::bytes(1, 12_000_000);
    write(&sandbox, "file", &bytes);
    write(&sandbox, "other", b"well");
    sandbox.backup("source");
    let container = containers(&sandbox).remove(0);
    flip(&sandbox.path("repo").join(container), 3_000_000);
    let mounted = Mounted::new(&sandbox, &[]);
    let path = mounted.latest(&sandbox.path("source/file"));
    let file = File::open(&path).expect("opened");
    let mut damaged = Vec::new();
    let mut page = [0; 4096];
    for start in (0..bytes.len() - page.len()).step_by(page.len() * 8) {
        match file.read_exact_at(&mut page, start as u64) {
            Ok(()) => assert!(page == bytes[start..start + page.len()], "at {start}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "EIO, not {error}");
                damaged.push(start);
            }
        }
    }
    let (first, last) = (damaged.first().expect("damage"), damaged.last().expect("damage"));
    assert!(last - first <= 2 << 20, "one region: {first} to {last}");
    assert!(damaged.len() > 1, "all of it: {damaged:?}");
    drop(file);
    assert!(fs::read(&path).is_err(), "the whole file has the damaged range");
    let other = mounted.latest(&sandbox.path("source/other"));
    assert_eq!(fs::read(other).expect("read"), b"well", "the other file");
    let named = format!(":{}: ", sandbox.path("source/file").display());
    until("the file is named", || mounted.log().contains(&named));
    let (code, log) = mounted.end();
    assert_eq!(code, Some(1), "{log}");
    assert_eq!(log.matches(&named).count(), 1, "once: {log}");
}

#[test]
fn memory_is_bounded() {
    let Some(sandbox) = sandbox() else { return };
    for folder in 0..100 {
        for number in 0..100 {
            write(&sandbox, &format!("{folder}/{number:060}"), b"");
        }
    }
    let mut random = SplitMix64::new(5);
    for number in 0..100 {
        write(&sandbox, &format!("large/{number}"), &random.take(1_500_000));
    }
    for _ in 0..6 {
        sandbox.backup("source");
    }
    let mounted = Mounted::new(&sandbox, &[]);
    for id in names(&mounted.folder.join("ids")) {
        let source = mounted.folder.join("ids").join(id);
        let source = source.join(sandbox.path("source").strip_prefix("/").expect("absolute"));
        let mut count = 0;
        for folder in names(&source) {
            for name in names(&source.join(&folder)) {
                let path = source.join(&folder).join(name);
                count += u64::from(path.symlink_metadata().expect("it is there").is_file());
            }
        }
        assert_eq!(count, 10_100, "all files");
    }
    let source = mounted.latest(&sandbox.path("source/large"));
    thread::scope(|scope| {
        for reader in 0..4 {
            let source = &source;
            scope.spawn(move || {
                for number in (reader..100).step_by(4) {
                    let read = fs::read(source.join(number.to_string())).expect("read");
                    assert_eq!(read.len(), 1_500_000);
                }
            });
        }
    });
    let used = mounted.status_kib("VmHWM");
    assert!(used <= MEMORY_KIB_MAX, "{used} KiB of memory");
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}

/// Reads go on while the storage gets new snapshots.
#[test]
fn reads_go_on_during_backups() {
    let Some(sandbox) = sandbox() else { return };
    let bytes = SplitMix64::bytes(1, 4_000_000);
    write(&sandbox, "file", &bytes);
    sandbox.backup("source");
    let mounted = Mounted::new(&sandbox, &[]);
    let read = |path: &Path| fs::read(mounted.latest(path)).expect("read");
    for number in 0..3 {
        write(&sandbox, &format!("new {number}"), &SplitMix64::bytes(10 + number, 500_000));
        sandbox.backup("source");
        thread::sleep(Duration::from_millis(3100));
        until("the new file appears", || {
            mounted.latest(&sandbox.path("source").join(format!("new {number}"))).exists()
        });
        let new = read(&sandbox.path("source").join(format!("new {number}")));
        assert!(new == SplitMix64::bytes(10 + number, 500_000), "new {number}");
        assert!(read(&sandbox.path("source/file")) == bytes, "the old file");
    }
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}
