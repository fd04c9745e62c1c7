//! Remotes of rclone, and a server of restic's REST protocol.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{
    Interruptible, Kind, Local, ObjectKind, Put, Rest, RestSettings, Storage, System, Throttle,
    Weakness, probe,
};
use cutpoint_testing::{RcloneServer, SplitMix64, rclone_command, services};
use tempfile::TempDir;

use crate::contract::{keeps_the_contract, names, one_creator_wins};
use crate::throttle::{assert_moves_slowly, limits};

/// Returns a folder for repositories; `None` if the tests of services do not run.
fn folder() -> Option<TempDir> {
    services("the tests over rclone").then(|| tempfile::tempdir().expect("a temporary folder"))
}

fn open(address: &str, command: &str) -> Rest {
    let mut settings = RestSettings::parse(address).expect("an address");
    settings.command = command.to_owned();
    Rest::open(&settings, Arc::new(System)).expect("threads start")
}

/// Opens a folder of this machine as a remote.
fn open_remote(folder: &Path) -> Rest {
    open(&format!("rclone:x:{}", folder.display()), &rclone_command())
}

#[test]
fn rclone_keeps_the_contract() {
    let Some(folder) = folder() else { return };
    let storage = open_remote(&folder.path().join("deep/er"));
    storage.require_free().expect("nothing is there");
    assert_eq!(storage.list("config").expect("no folder, no names"), [], "nothing is there");
    keeps_the_contract(&storage).expect("rclone");
    let weaknesses = storage.weaknesses().expect("it answers");
    assert!(
        matches!(weaknesses[..], [Weakness::CreatesInSteps(_), Weakness::MayLoseNewest(_)]),
        "{weaknesses:?}"
    );
    let probed = probe(&storage, &System).expect("it answers");
    assert!(!probed.may_be_shared(), "two clients cannot create atomically: {probed}");
}

#[test]
fn rest_server_keeps_the_contract() {
    let Some(folder) = folder() else { return };
    let server = RcloneServer::new(folder.path(), &["--user", "me", "--pass", "p@ss"]);
    let storage = open(&server.address("me:p%40ss@", "a/b/"), "");
    keeps_the_contract(&storage).expect("a server");
    let refused = open(&server.address("me:wrong@", "a/b/"), "").list("config");
    let error = refused.expect_err("another password");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("password")), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

/// The paths of a repository's objects are those of a local folder.
#[test]
fn rclone_has_the_files_of_a_local_folder() {
    let Some(folder) = folder() else { return };
    let (storage, local) =
        (open_remote(folder.path()), Local::open(folder.path()).expect("it is there"));
    // Of the names of the suite, containers are in other sub-folders than the format has.
    let own = [
        "data/b5/cab62967b380d0d4af4fd32f00000001",
        "meta/68/187be1f2c18de2b132fb3b7d00000001",
        "parity/b5/data-cab62967b380d0d4af4fd32f00000001-187be1f2c18de2b132fb3b7d",
    ];
    let is_flat = |name: &String| name.matches('/').count() == 1;
    let names = names().into_iter().filter(is_flat).chain(own.map(str::to_owned));
    let names: Vec<String> = names.collect();
    for (number, name) in names.iter().enumerate() {
        let (one, other): (&dyn Storage, &dyn Storage) =
            if number % 2 == 0 { (&storage, &local) } else { (&local, &storage) };
        let put = one.put_new(name, Bytes::from(name.clone())).expect("a put");
        assert_eq!(put, Put::Created, "{name}");
        assert_eq!(other.put_new(name, Bytes::new()).expect("a put"), Put::Exists, "{name}");
        assert_eq!(other.get(name).expect("a get"), name.as_bytes(), "the same file");
    }
    for kind in ObjectKind::ALL {
        let listed = storage.list(kind.folder()).expect("a list");
        assert_eq!(listed, local.list(kind.folder()).expect("a list"), "{kind:?}");
    }
}

/// An rclone that ends again and again costs time, and no object.
#[test]
fn rclone_that_ends_is_started_again() {
    let Some(folder) = folder() else { return };
    // A process carries one object of 5 MiB and a part of the next.
    let command = format!("sh -c 'stdbuf -o0 head -c 8000000 | {} \"$@\"' sh", rclone_command());
    let storage = open(&format!("rclone:x:{}", folder.path().display()), &command);
    for number in 0..6 {
        let bytes = Bytes::from(SplitMix64::bytes(number, 5 << 20));
        let name = format!("tmp/{number}");
        let put = storage.put_new(&name, bytes.clone()).expect("a put");
        assert_eq!(put, Put::Created, "{name}");
        assert!(storage.get(&name).expect("a get") == bytes, "{name} is whole");
    }
    assert_eq!(storage.list("tmp").expect("a list").len(), 6, "no other object is there");
}

/// A beginning of an object that an attempt has left is replaced; that of an earlier client is not.
#[test]
fn rclone_part_of_an_object_is_replaced_after_a_failure_only() {
    let Some(folder) = folder() else { return };
    let bytes = Bytes::from(SplitMix64::bytes(3, 5 << 20));
    fs::create_dir(folder.path().join("tmp")).expect("it is made");
    let file = folder.path().join("tmp/a");
    fs::write(&file, &bytes[..3]).expect("it is written");
    let address = format!("rclone:x:{}", folder.path().display());
    let put = open(&address, &rclone_command()).put_new("tmp/a", bytes.clone());
    assert_eq!(put.expect("a put"), Put::Exists, "it may be that of another client");
    assert_eq!(fs::read(&file).expect("it is there"), bytes[..3], "and stays");
    fs::remove_file(&file).expect("it is removed");
    // The first process is killed while it stores, and the next one sees what is there.
    let (seen, path) = (folder.path().join("seen"), file.display());
    let script = format!(
        "exec 3<&0; if ! test -e {path}; then {0} --bwlimit 1M \"$@\" <&3 & while ! test -s {path}; \
         do sleep 0.1; done; kill -9 $!; exit 1; fi; stat -c %s {path} >>{1}; exec {0} \"$@\"",
        rclone_command(),
        seen.display()
    );
    let program = folder.path().join("program");
    fs::write(&program, script).expect("it is written");
    let storage = open(&address, &format!("sh {}", program.display()));
    let put = storage.put_new("tmp/a", bytes.clone()).expect("it is put");
    assert_eq!(put, Put::Created, "by the second process");
    assert!(storage.get("tmp/a").expect("a get") == bytes, "whole");
    let seen = fs::read_to_string(seen).expect("it is there");
    let seen: usize = seen.trim().parse().expect("one process has found a part");
    assert!((1..bytes.len()).contains(&seen), "{seen} bytes");
}

#[test]
fn rclone_refusals_name_the_reason_and_a_remedy() {
    let Some(folder) = folder() else { return };
    let rclone = rclone_command();
    let refused = |address: &str, command: &str, texts: [&str; 2]| {
        let error = open(address, command).list("config").expect_err("it is refused");
        let remedy = error.remedy().unwrap_or_default();
        assert!(error.to_string().contains(texts[0]), "{error}");
        assert!(remedy.contains(texts[1]), "{error}: {remedy}");
    };
    refused("rclone:nosuch:a", &rclone, ["didn't find section", "rclone listremotes"]);
    refused("rclone:x:a", "no-such-program", ["not found", "Debian: rclone"]);
    refused("rclone:x:a", "echo", ["rclone", ""]);
    refused("rest:http://127.0.0.1:1/a/", "", ["onnection refused", "host, port and network"]);
    // A server of something else.
    let web = RcloneServer::new(folder.path(), &["--baseurl", "elsewhere"]);
    refused(&web.address("", "a/"), "", ["lists no folder config/", "rest-server"]);
    // A repository of restic.
    fs::write(folder.path().join("config"), "of restic").expect("it is written");
    let error = open_remote(folder.path()).require_free().expect_err("it is refused");
    assert!(error.to_string().contains("a repository of restic is here"), "{error}");
}

/// A server that permits no deletion keeps what it has, and says so.
#[test]
fn append_only_server_refuses_deletions() {
    let Some(folder) = folder() else { return };
    let server = RcloneServer::new(folder.path(), &["--append-only"]);
    let storage = open(&server.address("", ""), "");
    let put = |bytes| storage.put_new("commits/a", Bytes::from_static(bytes)).expect("a put");
    assert_eq!((put(b"1"), put(b"2")), (Put::Created, Put::Exists));
    let names = ["commits/a".to_owned()];
    let many = storage.delete_many(&names).pop().expect("a result");
    for deleted in [storage.delete("commits/a"), many] {
        let error = deleted.expect_err("it is refused");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("--append-only")), "{error}");
    }
    assert_eq!(storage.get("commits/a").expect("a get"), "1", "it stays");
}

/// A disk that is full is told from other failures.
#[test]
fn rclone_full_disk_is_full() {
    let Some(folder) = folder() else { return };
    let full = folder.path().join("full");
    fs::create_dir(&full).expect("it is made");
    let mount = |program: &str, words: &[&str]| {
        let done = std::process::Command::new(program).args(words).arg(&full).status();
        done.is_ok_and(|status| status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) {
        cutpoint_testing::skipped("the test of a full disk over rclone: it has to mount one");
        return;
    }
    let storage = open_remote(&full);
    let put = storage.put_new("commits/a", Bytes::from(vec![1; 2 << 20]));
    drop(storage);
    mount("umount", &[]);
    let error = put.expect_err("there is no room");
    assert_eq!(error.kind(), Kind::Full, "{error}");
}

#[test]
fn rclone_request_to_stop_ends_a_wait() {
    let Some(_folder) = folder() else { return };
    let stop = Stop::default();
    let mut settings = RestSettings::parse("rclone:x:a").expect("an address");
    // A program that never answers.
    settings.command = "sleep 1000 #".to_owned();
    let environment = Arc::new(Interruptible::new(System, stop.clone()));
    let storage = Rest::open(&settings, environment).expect("threads start");
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.ask(cutpoint_storage::Environment::elapsed_ns(&System));
        });
        let error = storage.list("config").expect_err("nobody answers");
        assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    });
    drop(storage);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// Threads of one process take turns; between processes there is no promise.
#[test]
fn rclone_threads_of_one_process_take_turns() {
    let Some(folder) = folder() else { return };
    one_creator_wins(&open_remote(folder.path())).expect("one process");
}

#[test]
fn rclone_and_rest_server_keep_limits_of_rates() {
    let Some(folder) = folder() else { return };
    let server = RcloneServer::new(folder.path(), &[]);
    let remote = format!("rclone:x:{}", folder.path().join("r").display());
    for (address, command) in
        [(remote, rclone_command()), (server.address("", "s/"), String::new())]
    {
        let mut settings = RestSettings::parse(&address).expect("an address");
        settings.command = command;
        settings.throttle = Throttle::new(limits(1 << 20, 2 << 20), Arc::new(System));
        let storage = Rest::open(&settings, Arc::new(System)).expect("threads start");
        assert_moves_slowly(&storage);
    }
}
