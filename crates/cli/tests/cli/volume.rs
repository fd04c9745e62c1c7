//! Virtual disks: served, filled by a client, killed, checked.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use cutpoint_testing::SplitMix64;

use crate::sandbox::Sandbox;
use crate::served::Served;

/// A client of the old way to begin, which knows simple replies only.
struct Client(UnixStream);

impl Client {
    fn connect(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).expect("the server listens");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT", "a server");
        let export = [b"IHAVEOPT".as_slice(), &[0, 0, 0, 1], &[0; 4]].concat();
        stream.write_all(&[&[0, 0, 0, 3], export.as_slice()].concat()).expect("sent");
        stream.read_exact(&mut [0; 10]).expect("size and flags");
        Client(stream)
    }

    /// Sends a request, and returns its error and the bytes of a read.
    fn request(&mut self, command: u16, offset: u64, len: u32, payload: &[u8]) -> (u32, Vec<u8>) {
        let request = [
            0x2560_9513_u32.to_be_bytes().as_slice(),
            &[0, 0],
            &command.to_be_bytes(),
            &[0; 8],
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
            payload,
        ]
        .concat();
        self.0.write_all(&request).expect("sent");
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("a reply");
        let error = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        let mut bytes = vec![0; if command == 0 && error == 0 { len as usize } else { 0 }];
        self.0.read_exact(&mut bytes).expect("the bytes");
        (error, bytes)
    }

    fn read(&mut self, offset: u64, len: u32) -> (u32, Vec<u8>) {
        self.request(0, offset, len, &[])
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        self.request(1, offset, u32::try_from(bytes.len()).expect("short"), bytes).0
    }

    fn flush(&mut self) -> u32 {
        self.request(3, 0, 0, &[]).0
    }
}

/// A process that serves the volume `disk` of a sandbox.
struct ServedVolume {
    process: Served,
    socket: PathBuf,
}

impl ServedVolume {
    /// Waits until the volume is served.
    fn new(sandbox: &Sandbox, options: &[&str]) -> ServedVolume {
        let mut command = sandbox.command(["volume", "serve", "disk", "--json"]);
        let mut process = Served::new(command.args(options));
        let event = process.event();
        assert_eq!(event["type"], "serving", "{event}");
        ServedVolume { process, socket: sandbox.path("disk/nbd.socket") }
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// Asks the process to end, and returns its exit code.
    fn end(self, signal: &str) -> Option<i32> {
        let (event, code) = self.process.end(signal);
        assert_eq!(event["command"], "volume_serve", "the last event");
        code
    }
}

fn created(mode: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let clear = ["--encryption", "none"];
    let create = ["volume", "create", "disk", "--size", "1M", "--mode", mode];
    let create = create.into_iter().chain(clear);
    sandbox.run(create).well();
    sandbox
}

#[test]
fn disk_keeps_what_a_client_has_written() {
    let sandbox = created("burst");
    let bytes = SplitMix64::bytes(1, 65536);
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    assert_eq!(client.write(4096, &bytes), 0);
    assert_eq!(client.write(131_072, &bytes), 0);
    assert_eq!(client.read(4096, 65536), (0, bytes.clone()));
    assert_eq!(client.flush(), 0);
    sandbox.run(["volume", "serve", "disk"]).ended(15, &["in use by another process"]);
    sandbox.run(["volume", "check", "disk"]).well();
    let socket = served.socket.clone();
    assert_eq!(served.end("-TERM"), Some(0));
    assert!(!socket.exists(), "the socket is removed");
    let stats = &sandbox.json(["volume", "stats", "disk"])[0];
    assert_eq!(stats["used_bytes"], 131_072);
    assert_eq!(stats["full_count"], 16, "each block once");
    assert_eq!(stats["ratio"], 2.0);
    let text = sandbox.run(["volume", "stats", "disk"]).well();
    assert!(text.text().contains("ratio       2.00"), "{}", text.text());
    let served = ServedVolume::new(&sandbox, &["--read-only"]);
    let mut client = served.client();
    assert_eq!(client.read(131_072, 65536), (0, bytes));
    assert_eq!(client.write(0, &[1]), 1, "not permitted");
    assert_eq!(served.end("-INT"), Some(0));
}

#[test]
fn killed_server_loses_nothing_that_was_flushed() {
    let sandbox = created("exact");
    for (round, mode) in (0..).zip(["burst", "off", "exact", "burst:c_max=1"]) {
        let served = ServedVolume::new(&sandbox, &["--mode", mode]);
        let mut client = served.client();
        for earlier in 0..round {
            let bytes = SplitMix64::bytes(earlier, 10_000);
            assert_eq!(client.read(earlier * 20_000, 10_000), (0, bytes), "round {round}");
        }
        assert_eq!(client.write(round * 20_000, &SplitMix64::bytes(round, 10_000)), 0);
        assert_eq!(client.flush(), 0);
        served.process.kill();
    }
    sandbox.run(["volume", "check", "disk"]).well();
}

#[test]
fn check_names_damaged_blocks_and_others_are_read() {
    let sandbox = created("exact");
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    for block in 0..8 {
        assert_eq!(client.write(block * 4096, &SplitMix64::bytes(block, 4096)), 0);
    }
    assert_eq!(served.end("-TERM"), Some(0));
    sandbox.run(["volume", "check", "disk"]).well();
    let segment = sandbox.path("disk/segment-0000000000000001");
    let mut bytes = fs::read(&segment).expect("a segment");
    bytes[128 + 3 * (128 + 4096) + 1000] ^= 4;
    fs::write(&segment, bytes).expect("damaged");
    let found = sandbox.run(["volume", "check", "disk"]);
    let found = found.ended(1, &[]);
    assert!(found.text().contains("block 3 of main cannot be read"), "{}", found.text());
    let found = sandbox.run(["volume", "check", "disk", "--json"]).ended(1, &[]).events();
    assert_eq!(
        (&found[0]["type"], &found[0]["kind"]),
        (&"finding".into(), &"damaged_block".into())
    );
    assert_eq!(found[1]["damaged_block_count"], 1);
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    for block in 0..8 {
        let (error, bytes) = client.read(block * 4096, 4096);
        if block == 3 {
            assert_eq!(error, 5, "an input/output error");
        } else {
            assert_eq!((error, bytes), (0, SplitMix64::bytes(block, 4096)));
        }
    }
    assert_eq!(client.write(3 * 4096, &SplitMix64::bytes(3, 4096)), 0);
    assert_eq!(client.read(3 * 4096, 4096), (0, SplitMix64::bytes(3, 4096)), "stored again");
}

#[test]
fn create_and_open_refuse_what_they_cannot_use() {
    let sandbox = created("off");
    fs::create_dir(sandbox.path("full")).expect("a folder");
    fs::write(sandbox.path("full/file"), b"something").expect("a file");
    let create = ["volume", "create", "full", "--size", "1M", "--encryption", "none"];
    sandbox.run(create).ended(2, &["full: not empty"]);
    let refused = [
        (vec!["--size", "1000"], "size 1000: must be a multiple of 4096 bytes"),
        (vec!["--size", "1M", "--block-size", "5k"], "block size 5120: must be 4096, 8192"),
        (vec!["--size", "1M", "--mode", "fast"], "--mode fast: unknown"),
        (vec!["--size", "1M", "--mode", "burst:variant=raw"], "a part of the name"),
        (vec!["--size", "1M", "--compression", "gzip"], "--compression gzip: unknown"),
        (vec!["--size", "1M", "--disk", "x@y"], "name 'x@y'"),
    ];
    for (options, message) in refused {
        let words = [vec!["volume", "create", "new"], options].concat();
        sandbox.run(words).ended(2, &[message]);
        assert!(!sandbox.path("new").exists(), "nothing is made");
    }
    sandbox.run(["volume", "stats", "none"]).ended(10, &["none: no volume found"]);
    sandbox
        .run(["volume", "serve", "disk", "--listen", "udp:1"])
        .ended(2, &["unix:PATH, tcp:PORT or tcp:ADDRESS:PORT"]);
    for name in ["checkpoint-0000000000000001", "checkpoint-0000000000000001.copy"] {
        fs::write(sandbox.path("disk").join(name), b"nothing").expect("damaged");
    }
    sandbox.run(["volume", "stats", "disk"]).ended(11, &["checkpoint-0000000000000001"]);
}

#[test]
fn disks_are_snapshot_cloned_resized_and_deleted_also_while_served() {
    let sandbox = created("exact");
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    assert_eq!(client.write(0, &SplitMix64::bytes(1, 4096)), 0);
    sandbox.run(["volume", "snapshot", "disk", "main", "first"]).well();
    assert_eq!(client.write(0, &SplitMix64::bytes(2, 4096)), 0);
    sandbox.run(["volume", "clone", "disk", "main@first", "copy"]).well();
    sandbox.run(["volume", "create", "disk", "--disk", "other", "--size", "64k"]).well();
    let events = sandbox.json(["volume", "list", "disk"]);
    let names: Vec<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names, ["main", "copy", "other", "main@first"]);
    assert_eq!(events[0]["own_bytes"], 4096);
    let text = sandbox.run(["volume", "list", "disk"]).well();
    assert!(text.text().contains("main@first"), "{}", text.text());
    sandbox.run(["volume", "resize", "disk", "other", "32k"]).ended(2, &["--shrink"]);
    sandbox.run(["volume", "resize", "disk", "other", "128k"]).well();
    sandbox.run(["volume", "rollback", "disk", "main@first"]).ended(15, &["is served"]);
    sandbox.run(["volume", "delete", "disk", "copy"]).ended(15, &["is served"]);
    sandbox.run(["volume", "snapshot", "disk", "none", "x"]).ended(2, &["no such disk"]);
    assert_eq!(sandbox.json(["volume", "stats", "disk"])[0]["layer_count"], 4);
    assert_eq!(served.end("-TERM"), Some(0));
    assert!(!sandbox.path("disk/control.socket").exists(), "the socket is removed");
    sandbox.run(["volume", "rollback", "disk", "main@first"]).well();
    let served = ServedVolume::new(&sandbox, &[]);
    let (error, bytes) = served.client().read(0, 4096);
    assert_eq!((error, bytes), (0, SplitMix64::bytes(1, 4096)), "the first content again");
    assert_eq!(served.end("-TERM"), Some(0));
    sandbox.run(["volume", "delete", "disk", "main"]).ended(2, &["has snapshots"]);
    sandbox.run(["volume", "delete", "disk", "main@first"]).well();
    sandbox.run(["volume", "delete", "disk", "copy"]).well();
    sandbox.run(["volume", "check", "disk"]).well();
}

#[test]
fn volume_is_encrypted_unless_asked_otherwise() {
    let sandbox = Sandbox::new();
    let run = |words: &[&str], passphrase: &str| {
        let mut command = sandbox.command(words);
        command.env("CUTPOINT_PASSPHRASE", passphrase).env("CUTPOINT_NEW_PASSPHRASE", "second");
        command.output().expect("run")
    };
    let create = ["volume", "create", "disk", "--size", "1M", "--compression", "lz4"];
    assert!(run(&create, "first").status.success(), "created");
    assert_eq!(run(&["volume", "stats", "disk"], "wrong").status.code(), Some(12));
    assert_eq!(run(&["volume", "stats", "disk"], "").status.code(), Some(12), "none");
    assert!(run(&["volume", "stats", "disk"], "first").status.success(), "right");
    assert!(run(&["volume", "key", "add", "disk", "--label", "two"], "first").status.success());
    let listed = run(&["volume", "key", "list", "disk"], "");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("two"), "{listed:?}");
    assert!(run(&["volume", "key", "remove", "disk", "1"], "").status.success());
    assert_eq!(run(&["volume", "stats", "disk"], "first").status.code(), Some(12), "removed");
    assert!(run(&["volume", "stats", "disk"], "second").status.success(), "the other one");
    assert_eq!(run(&["volume", "key", "remove", "disk", "2"], "").status.code(), Some(2));
}

/// Returns what a client reads of the first bytes of a disk.
fn contents(sandbox: &Sandbox, len: u32) -> Vec<u8> {
    let served = ServedVolume::new(sandbox, &["--read-only"]);
    let (error, bytes) = served.client().read(0, len);
    assert_eq!(error, 0, "read");
    assert_eq!(served.end("-TERM"), Some(0), "a clean end");
    bytes
}

#[test]
fn images_are_imported_into_new_volumes_and_as_more_disks() {
    let sandbox = Sandbox::new();
    // A hole between data, and no whole block at the end.
    let mut image = SplitMix64::bytes(1, 300_000);
    image[8192..200_000].fill(0);
    fs::write(sandbox.path("image"), &image).expect("an image");
    let clear = ["--encryption", "none"];
    let import = |words: &[&str]| {
        let words = ["volume", "import", "disk"].iter().chain(words).chain(&clear);
        sandbox.run(words.copied())
    };
    import(&["image"]).well();
    assert_eq!(contents(&sandbox, 300_000), image);
    import(&["image"]).ended(2, &["disk main: exists already"]);
    import(&["image", "--disk", "second"]).well();
    let events = sandbox.json(["volume", "list", "disk"]);
    assert_eq!(events[1]["name"], "second");
    assert_eq!(events[1]["size_bytes"], 303_104, "whole blocks");
    let stats = &sandbox.json(["volume", "stats", "disk"])[0];
    assert_eq!(stats["writes"]["full_count"], 28, "each block once");
    // An image that cannot be read leaves nothing.
    fs::write(sandbox.path("broken"), b"QFI\xfb\0\0\0\x03 and no more").expect("a file");
    import(&["broken", "--disk", "third"]).ended(11, &["broken"]);
    assert_eq!(sandbox.json(["volume", "list", "disk"]).len(), 2, "no third disk");
    let words = ["volume", "import", "new", "broken", "--encryption", "none"];
    sandbox.run(words).ended(11, &["broken"]);
    assert!(!sandbox.path("new").exists(), "nothing is made");
}

#[test]
fn qcow2_image_is_imported() {
    let sandbox = Sandbox::new();
    let mut image = SplitMix64::bytes(2, 1 << 20);
    image[4096..700_000].fill(0);
    fs::write(sandbox.path("image"), &image).expect("an image");
    let convert = ["convert", "-c", "-f", "raw", "-O", "qcow2", "image", "image.qcow2"];
    let converted = Command::new("qemu-img").args(convert).current_dir(sandbox.path("")).output();
    if converted.is_err() {
        cutpoint_testing::skipped("qemu-img is not installed: no qcow2 image was imported");
        return;
    }
    let words = ["volume", "import", "disk", "image.qcow2", "--encryption", "none"];
    sandbox.run(words).well();
    assert_eq!(contents(&sandbox, 1 << 20), image);
}

#[test]
fn changed_parts_of_a_disk_are_those_since_a_snapshot() {
    let sandbox = created("exact");
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    assert_eq!(client.write(0, &SplitMix64::bytes(1, 65536)), 0);
    sandbox.run(["volume", "snapshot", "disk", "main", "one"]).well();
    assert_eq!(client.write(8192, &SplitMix64::bytes(2, 8192)), 0);
    assert_eq!(client.write(65536, &SplitMix64::bytes(3, 4096)), 0);
    sandbox.run(["volume", "snapshot", "disk", "main", "two"]).well();
    assert_eq!(client.write(0, &SplitMix64::bytes(4, 4096)), 0);
    let changed = |from: &str, to: &str| {
        sandbox.run(["volume", "changed", "disk", from, to]).well().text().to_owned()
    };
    assert_eq!(changed("main@one", "main@two"), "8192 8192\n65536 4096\n");
    assert_eq!(changed("main@one", "main"), "0 4096\n8192 8192\n65536 4096\n");
    assert_eq!(changed("main@two", "main@two"), "");
    let words = ["volume", "changed", "disk", "main@two", "main@one"];
    sandbox.run(words).ended(2, &["does not come from"]);
    assert_eq!(served.end("-TERM"), Some(0));
}

/// What a client reads of a snapshot takes the place of a device here.
#[test]
fn disk_is_saved_by_its_changed_parts_and_imported_again() {
    let sandbox = Sandbox::with_repository();
    let create = ["volume", "create", "disk", "--size", "4M", "--mode", "exact"];
    sandbox.run(create.into_iter().chain(["--encryption", "none"])).well();
    let served = ServedVolume::new(&sandbox, &[]);
    let mut client = served.client();
    let snapshot = |name| sandbox.run(["volume", "snapshot", "disk", "main", name]).well();
    let save = |bytes: &[u8], words: &[&str]| {
        // Not replaced: another file would be read as a whole.
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(sandbox.path("device"));
        file.and_then(|mut file| file.write_all(bytes)).expect("written");
        let events = sandbox.json(["backup", "device"].iter().chain(words).copied());
        events.last().expect("a summary")["read_bytes"].as_u64()
    };
    assert_eq!(client.write(0, &SplitMix64::bytes(1, 3 << 20)), 0);
    snapshot("one");
    assert_eq!(save(&client.read(0, 4 << 20).1, &[]), Some(4 << 20), "everything");
    assert_eq!(client.write(1 << 20, &SplitMix64::bytes(2, 8192)), 0);
    snapshot("two");
    let map = sandbox.run(["volume", "changed", "disk", "main@one", "main@two"]).well();
    fs::write(sandbox.path("map"), map.text()).expect("written");
    let (_, bytes) = client.read(0, 4 << 20);
    let read_bytes = save(&bytes, &["--changed-blocks", "map"]);
    assert!(read_bytes < Some(1 << 20), "{read_bytes:?}");
    assert_eq!(served.end("-TERM"), Some(0));
    let words = ["volume", "import", "new", "--from-snapshot", "latest:device"];
    sandbox.run(words.into_iter().chain(["--encryption", "none"])).well();
    fs::rename(sandbox.path("disk"), sandbox.path("old")).expect("renamed");
    fs::rename(sandbox.path("new"), sandbox.path("disk")).expect("renamed");
    assert!(contents(&sandbox, 4 << 20) == bytes, "the disk as it was saved");
}

#[test]
fn counters_are_printed_for_prometheus() {
    let sandbox = created("exact");
    let text = sandbox.run(["volume", "stats", "disk", "--prometheus"]).well();
    let text = text.text();
    let label = format!("{{volume=\"{}\"}}", sandbox.path("disk").display());
    for name in ["size_bytes", "used_bytes", "reserve_bytes", "free_bytes"] {
        assert!(text.contains(&format!("\ncutpoint_volume_{name}{label} ")), "{name} in {text}");
    }
    assert!(text.contains(&format!("cutpoint_volume_size_bytes{label} 1048576\n")), "{text}");
    assert!(text.contains("# TYPE cutpoint_volume_writes_full_count_total counter\n"), "{text}");
}

/// The unit as it is installed, but for its paths.
#[test]
fn unit_of_systemd_is_valid_and_serves_an_encrypted_volume() {
    let sandbox = Sandbox::new();
    let passphrase = sandbox.path("passphrase");
    fs::write(&passphrase, "a passphrase\n").expect("written");
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).expect("changed");
    let root = sandbox.path("").display().to_string();
    let words = ["--size", "1M", "--passphrase-file", "passphrase"];
    sandbox.run(["volume", "create", "db"].into_iter().chain(words)).well();
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/cutpoint-volume@.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    let unit = unit
        .replace("/usr/bin/cutpoint", env!("CARGO_BIN_EXE_cutpoint"))
        .replace("/var/lib/cutpoint/volumes/", &root)
        .replace("/run/cutpoint/", &root);
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let start = start.replace("%i", "db").replace("%d/", &root);
    let (program, words) = start.split_once(' ').expect("a program and its arguments");
    assert_eq!(program, env!("CARGO_BIN_EXE_cutpoint"));
    let mut process = Served::new(sandbox.command(words.split(' ')).arg("--json"));
    assert_eq!(process.event()["type"], "serving");
    assert_eq!(Client::connect(&sandbox.path("db.socket")).read(0, 4096), (0, vec![0; 4096]));
    sandbox
        .run(["volume", "snapshot", "db", "main", "one", "--passphrase-file", "passphrase"])
        .well();
    let (_, code) = process.end("-TERM");
    assert_eq!(code, Some(0), "the signal of the unit");
    assert!(unit.contains("\nKillSignal=SIGTERM\n"), "the signal of the unit");
    let copy = sandbox.path("cutpoint-volume@.service");
    fs::write(&copy, unit).expect("written");
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output();
    match verified {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
        Err(_) => {
            cutpoint_testing::skipped("systemd-analyze is not installed: the unit is not verified")
        }
    }
}

#[test]
fn connecting_without_a_server_names_the_remedy() {
    let sandbox = created("exact");
    let problems = ["disk: not served at", "`cutpoint volume serve` serves it"];
    sandbox.run(["volume", "connect", "disk"]).ended(2, &problems);
    // A killed server leaves its socket.
    drop(UnixListener::bind(sandbox.path("disk/nbd.socket")).expect("a socket"));
    sandbox.run(["volume", "connect", "disk"]).ended(2, &problems);
}
