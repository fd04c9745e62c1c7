//! Folders on an OpenSSH server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{
    Interruptible, Kind, Local, ObjectRange, Put, Sftp, SftpSettings, Storage, System, Throttle,
    Weakness, probe,
};
use cutpoint_testing::{SplitMix64, SshServer, services};
use tempfile::TempDir;

use crate::contract::{keeps_the_contract, one_creator_wins};
use crate::throttle::{assert_moves_slowly, limits};

/// A server and a folder for repositories.
struct Place {
    folder: TempDir,
    server: SshServer,
}

impl Place {
    /// Returns `None` if the tests of services do not run.
    fn new(options: &str) -> Option<Place> {
        if !services("the tests over SFTP") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = SshServer::new(&folder.path().join("server"), options);
        fs::create_dir(folder.path().join("r")).expect("it is made");
        Some(Place { folder, server })
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("r")
    }

    fn settings(&self, path: &Path) -> SftpSettings {
        let mut settings = SftpSettings::parse(&self.server.address(path)).expect("an address");
        settings.command = self.server.command();
        settings
    }

    fn open(&self) -> Sftp {
        self.open_with(&self.settings(&self.root()))
    }

    fn open_with(&self, settings: &SftpSettings) -> Sftp {
        Sftp::open(settings, Arc::new(System)).expect("threads start")
    }
}

/// Opens the folder `r` of `place` by a relay that answers some requests itself, depending on `mode`.
fn open_by_relay(place: &Place, mode: &str) -> Sftp {
    let servers = ["/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server"];
    let server = servers.iter().find(|path| Path::new(path).exists()).expect("openssh-sftp-server");
    let relay = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/services/sftp_relay.py");
    let state = place.folder.path().join("state");
    let mut settings = place.settings(&place.root());
    settings.command = format!("python3 {} {server} {mode} {} #", relay.display(), state.display());
    place.open_with(&settings)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("a text")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn sftp_keeps_the_contract() {
    let Some(place) = Place::new("") else { return };
    keeps_the_contract(&place.open()).expect("an absolute path");
    let storage = place.open();
    assert!(storage.weaknesses().expect("it answers").is_empty(), "all extensions are there");
    assert!(probe(&storage, &System).expect("it answers").may_be_shared(), "it is atomic");
    // Two clients of the same folder.
    let other = Local::open(&place.root()).expect("it is there");
    let name = "commits/bbbbbbbbbbbbbbbbbbbbbbbb";
    assert_eq!(storage.put_new(name, Bytes::from_static(b"1")).expect("a put"), Put::Created);
    assert_eq!(other.put_new(name, Bytes::from_static(b"2")).expect("a put"), Put::Exists);
    assert_eq!(other.list("commits").expect("a list"), [(name.to_owned(), 1)], "the same files");
}

#[test]
fn sftp_folder_is_created_private_with_its_parents() {
    let Some(place) = Place::new("") else { return };
    let deep = place.root().join("deep/er");
    let storage = place.open_with(&place.settings(&deep));
    assert_eq!(storage.list("config").expect("no folder, no names"), [], "nothing is there");
    let put = storage.put_new("config/a", Bytes::from_static(b"x"));
    let error = put.expect_err("a folder that is misspelled is not created by a put");
    assert!(error.to_string().contains("does not exist on the server"), "{error}");
    storage.create_folder().expect("it is created");
    storage.create_folder().expect("once more");
    storage.prepare().expect("its folders");
    storage.put_new("config/a", Bytes::from_static(b"x")).expect("a put");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&deep), mode(&deep.join("config/a"))), (0o700, 0o600));
    assert!(storage.entries().expect("a list").contains(&"config".to_owned()), "its entries");
}

/// A server without the extensions has the contract, and says what it does not promise.
#[test]
fn sftp_without_extensions_says_what_it_does_not_promise() {
    let Some(place) = Place::new("-P hardlink,fsync,posix-rename,statvfs,limits") else { return };
    let storage = place.open();
    keeps_the_contract(&storage).expect("without extensions");
    let weaknesses = storage.weaknesses().expect("it answers");
    let [Weakness::CreatesInSteps(links), Weakness::MayLoseNewest(syncs)] = weaknesses[..] else {
        panic!("{weaknesses:?}")
    };
    assert!(links.contains("hardlink@openssh.com") && syncs.contains("fsync@openssh.com"));
    let probed = probe(&storage, &System).expect("it answers");
    assert!(!probed.may_be_shared(), "one connection cannot show a race: {probed}");
    let error = storage.replace("config/a", Bytes::new()).expect_err("no atomic replacement");
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

/// A connection that is cut again and again costs time, and no object.
#[test]
fn sftp_connection_that_is_cut_is_made_again() {
    let Some(place) = Place::new("") else { return };
    let mut settings = place.settings(&place.root());
    let storage = place.open_with(&settings);
    storage.prepare().expect("its folders");
    // A connection carries one object of 5 MiB and a part of the next.
    let ssh = place.server.command();
    // Text of ssh that is harmless says nothing about a cut.
    let noise = "echo no such identity: /id_old: No such file or directory >&2";
    settings.command = format!("sh -c '{noise}; stdbuf -o0 head -c 8000000 | {ssh} \"$@\"' sh");
    let cut = place.open_with(&settings);
    let bytes: Vec<Bytes> =
        (0..12).map(|seed| Bytes::from(SplitMix64::bytes(seed, 5 << 20))).collect();
    for (number, bytes) in bytes.iter().enumerate() {
        let name = format!("data/{number:02x}/{number:032x}");
        let put = match number % 2 {
            0 => cut.put_new(&name, bytes.clone()),
            _ => {
                let mut staged = cut.stage(&name).expect("it begins").expect("in pieces");
                for piece in bytes.chunks(300_000) {
                    staged.write(piece).expect("a piece");
                }
                staged.finish()
            }
        };
        assert_eq!(put.expect("a put"), Put::Created, "{name}");
        assert!(cut.get(&name).expect("a get") == *bytes, "{name} is whole");
    }
    assert_eq!(cut.list("data").expect("a list").len(), bytes.len(), "no other object is there");
    storage.clean(&|_, _| true).expect("remnants of cut puts are removed");
    assert_eq!(names_in(&place.root().join("data/01")).len(), 1, "only the object is left");
}

#[test]
fn sftp_dropped_put_leaves_no_file() {
    let Some(place) = Place::new("") else { return };
    let storage = place.open();
    storage.prepare().expect("its folders");
    let mut staged = storage.stage("data/00/x").expect("it begins").expect("in pieces");
    staged.write(&[7; 1 << 20]).expect("a piece");
    drop(staged);
    drop(storage);
    assert_eq!(names_in(&place.root().join("data/00")), [""; 0], "removed at the end");
}

#[test]
fn sftp_refusals_name_the_reason_and_a_remedy() {
    let Some(place) = Place::new("") else { return };
    let refused = |texts: [&str; 2]| {
        let error = place.open().list("config").expect_err("it is refused");
        let remedy = error.remedy().unwrap_or_default();
        assert!(error.to_string().contains(texts[0]), "{error}");
        assert!(remedy.contains(texts[1]), "{error}: {remedy}");
    };
    place.server.know_none();
    refused(["Host key verification failed", "compare the fingerprint"]);
    place.server.make_key("other_key");
    place.server.know("other_key");
    refused(["Host key verification failed", "ssh-keygen -R HOST"]);
    place.server.know("host_key");
    place.server.accept("other_key");
    refused(["Permission denied (publickey", "authorized_keys"]);
    place.server.accept("client_key");
    let mut settings = place.settings(&place.root());
    settings.command = "no-such-program".to_owned();
    let error = place.open_with(&settings).list("config").expect_err("no ssh");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("openssh-client")), "{error}");
    settings.command =
        format!("{} -p 1 -oProxyCommand=none -oHostname=127.0.0.1", place.server.command());
    let error = place.open_with(&settings).list("config").expect_err("nobody listens");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("host, port and network")));
    // A server of which a login script prints text.
    settings.command = "sh -c 'echo hello; cat' #".to_owned();
    let error = place.open_with(&settings).list("config").expect_err("no server");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("login script")), "{error}");
}

/// A disk that is full is told from other failures.
#[test]
fn sftp_full_disk_is_full() {
    let Some(place) = Place::new("") else { return };
    let full = place.folder.path().join("full");
    fs::create_dir(&full).expect("it is made");
    let mount = |program: &str, words: &[&str]| {
        let done = std::process::Command::new(program).args(words).arg(&full).status();
        done.is_ok_and(|status| status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) {
        cutpoint_testing::skipped("the test of a full disk over SFTP: it has to mount one");
        return;
    }
    let storage = place.open_with(&place.settings(&full));
    let put = storage.put_new("commits/a", Bytes::from(vec![1; 2 << 20]));
    drop(storage);
    mount("umount", &[]);
    let error = put.expect_err("there is no room");
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("quota")), "{error}");
}

/// Permissions are named; root has all of them.
#[test]
fn sftp_missing_permission_is_named() {
    let Some(place) = Place::new("-R") else { return };
    let error = place.open().put_new("commits/a", Bytes::from_static(b"x")).expect_err("read-only");
    assert!(error.to_string().contains("Permission denied"), "{error}");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("own the folder")), "{error}");
    let deleted = place.open().delete("commits/a");
    assert!(deleted.is_err(), "nor can anything be deleted: {deleted:?}");
}

#[test]
fn sftp_request_to_stop_ends_a_wait() {
    let Some(place) = Place::new("") else { return };
    let stop = Stop::default();
    let mut settings = place.settings(&place.root());
    // A server that never answers.
    settings.command = "sleep 1000 #".to_owned();
    let environment = Arc::new(Interruptible::new(System, stop.clone()));
    let storage = Sftp::open(&settings, environment).expect("threads start");
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.ask(cutpoint_storage::Environment::elapsed_ns(&System));
        });
        let error = storage.list("config").expect_err("nobody answers");
        assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    });
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Several connections put one name at once.
#[test]
fn sftp_of_several_connections_one_creates() {
    let Some(place) = Place::new("") else { return };
    place.open().prepare().expect("its folders");
    one_creator_wins(&place.open()).expect("one connection");
    let storages: Vec<Sftp> = (0..4).map(|_| place.open()).collect();
    for round in 0..10 {
        let name = format!("prunes/{round:020}");
        let put = |creator: usize| storages[creator].put_new(&name, Bytes::from(vec![1; creator]));
        let put = &put;
        let puts: Vec<Put> = std::thread::scope(|scope| {
            let creators: Vec<_> = (0..4).map(|at| scope.spawn(move || put(at))).collect();
            creators.into_iter().map(|one| one.join().expect("no panic").expect("a put")).collect()
        });
        let count = puts.iter().filter(|put| **put == Put::Created).count();
        assert_eq!(count, 1, "round {round}: {puts:?}");
    }
}

#[test]
fn sftp_keeps_limits_of_rates() {
    let Some(place) = Place::new("") else { return };
    let mut settings = place.settings(&place.root());
    settings.throttle = Throttle::new(limits(1 << 20, 2 << 20), Arc::new(System));
    assert_moves_slowly(&place.open_with(&settings));
}

/// A server that does not sync folders says so; one that cannot now has failed.
#[test]
fn sftp_folder_that_is_not_synced_is_no_secret() {
    let Some(place) = Place::new("") else { return };
    let storage = open_by_relay(&place, "no-folders");
    let weaknesses = storage.weaknesses().expect("it answers");
    let [Weakness::MayLoseNewest(reason)] = weaknesses[..] else { panic!("{weaknesses:?}") };
    assert!(reason.contains("does not sync folders"), "{reason}");
    storage.put_new("commits/a", Bytes::from_static(b"x")).expect("a put without a sync");
    let storage = open_by_relay(&place, "few-folders");
    assert!(storage.weaknesses().expect("it answers").is_empty(), "folders are synced");
    let error = storage.put_new("commits/b", Bytes::from_static(b"x")).expect_err("not synced");
    assert!(error.to_string().contains("Failure"), "{error}");
}

#[test]
fn sftp_listing_without_an_end_is_refused() {
    let Some(place) = Place::new("") else { return };
    fs::create_dir(place.root().join("keys")).expect("it is made");
    for (mode, text) in [("empty", "without entries"), ("endless", "more than 20000 entries")] {
        let error = open_by_relay(&place, mode).list("keys").expect_err(mode);
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// A link that a server makes after its client has looked for the object is that of the put.
#[test]
fn sftp_link_that_arrives_late_is_of_the_put() {
    let Some(place) = Place::new("") else { return };
    place.open().prepare().expect("its folders");
    let put = open_by_relay(&place, "late-link").put_new("commits/a", Bytes::from_static(b"own"));
    assert!(place.folder.path().join("state").exists(), "the first link was cut");
    assert_eq!(put.expect("a put"), Put::Created, "the object has its bytes");
}

/// Ranges that are read at a time share a handle, and a later read sees what has replaced the object.
#[test]
fn sftp_ranges_of_an_object_open_it_once() {
    let Some(place) = Place::new("") else { return };
    place.open().prepare().expect("its folders");
    let storage = open_by_relay(&place, "opens");
    let name = "data/00/x";
    let bytes = Bytes::from(SplitMix64::bytes(1, 1 << 20));
    storage.put_new(name, bytes.clone()).expect("a put");
    let opened = || {
        let opened = fs::read_to_string(place.folder.path().join("state")).expect("a log");
        opened.lines().filter(|path| path.ends_with(name)).count()
    };
    let range = |at: usize| ObjectRange { name: name.to_owned(), offset: at as u64, len: 70_000 };
    let ranges: Vec<ObjectRange> = (0..20).map(|number| range(number * 40_000)).collect();
    for (range, read) in ranges.iter().zip(storage.get_ranges(&ranges)) {
        let at = usize::try_from(range.offset).expect("small");
        assert!(read.expect("a range") == bytes[at..at + range.len], "{range:?}");
    }
    assert_eq!(opened(), 1, "once for all of them");
    storage.replace(name, Bytes::from_static(b"others")).expect("it is replaced");
    assert_eq!(storage.get_range(name, 0, 6).expect("a range"), b"others"[..]);
    storage.delete(name).expect("it is deleted");
    let error = storage.get_range(name, 0, 6).expect_err("it is gone");
    assert_eq!(error.kind(), Kind::Missing, "{error}");
}

/// A short range is requested although longer ones leave no room.
#[test]
fn sftp_short_range_does_not_wait_for_long_ones() {
    let Some(place) = Place::new("") else { return };
    place.open().prepare().expect("its folders");
    let storage = open_by_relay(&place, "short-first");
    fs::write(place.root().join("data/00/long"), vec![1; 32 << 20]).expect("an object");
    fs::write(place.root().join("data/00/short"), [2; 1000]).expect("an object");
    std::thread::scope(|scope| {
        let long = scope.spawn(|| storage.get_range("data/00/long", 0, 32 << 20));
        // Time for more requests than may be under way.
        std::thread::sleep(Duration::from_millis(500));
        let began = std::time::Instant::now();
        let short = storage.get_range("data/00/short", 10, 100).expect("a range");
        assert_eq!(short, [2; 100][..]);
        assert!(began.elapsed() < Duration::from_secs(60), "it waited for the long one");
        let long = long.join().expect("no panic").expect("a range");
        assert!(long.iter().all(|byte| *byte == 1) && long.len() == 32 << 20, "all of it");
    });
}
