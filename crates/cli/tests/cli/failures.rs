//! Each failure has an exit code, and a message that names the object and the remedy.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Run, Sandbox, describe, is_root, make_source, run};

/// Flips a bit of the file `path`.
pub(crate) fn flip(path: &std::path::Path, at: usize) {
    let mut bytes = fs::read(path).expect("the object");
    bytes[at] ^= 1;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
    fs::write(path, bytes).expect("damaged");
}

/// A user without privileges.

#[test]
fn missing_repository_is_reported() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    fs::create_dir(sandbox.path("empty")).expect("made");
    fs::write(sandbox.path("file"), "x").expect("written");
    for place in ["nowhere", "empty", "file"] {
        sandbox
            .run(["snapshots", "--repo", place])
            .ended(10, &[&format!("{place}: no repository found"), "cutpoint init"]);
    }
    // A script is not asked, and nothing is created.
    sandbox.run(["backup", "source"]).ended(10, &["no repository found", "--init"]);
    assert!(!sandbox.path("repo").exists(), "nothing was made");
    run(sandbox.command(["snapshots"]).env_remove("CUTPOINT_REPO"))
        .ended(2, &["no repository given", "CUTPOINT_REPO"]);
}

/// Places in the syntax of other programs. A folder of that name on this machine would be mistaken
/// for a backup elsewhere.
#[test]
fn unknown_kind_of_place_is_refused() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    for (place, spelling) in [
        ("sftp:me@nas:/b", "./sftp:me@nas:/b"),
        ("s3:host.example/bucket", "--repo s3://bucket --s3-endpoint https://host.example"),
        ("dropbox:b", "./dropbox:b"),
        ("b2:bucket:p", "--repo s3://bucket/p"),
        ("oss://bucket/x", "./oss://bucket/x"),
        ("C:foo", "./C:foo"),
    ] {
        let texts =
            [place, "expected a folder, file:///FOLDER, s3://BUCKET/PREFIX, azure://", spelling];
        let init = ["init", "--encryption", "none", "--repo", place];
        sandbox.run(init).ended(2, &texts);
        let backup = ["backup", "source", "--init", "--encryption", "none", "--repo", place];
        sandbox.run(backup).ended(2, &texts);
        for command in ["snapshots", "doctor", "prune"] {
            run(sandbox.command([command]).env("CUTPOINT_REPO", place)).ended(2, &texts);
        }
    }
    let names = fs::read_dir(sandbox.path("")).expect("listed").map(|each| each.expect("one"));
    let names: Vec<_> = names.map(|each| each.file_name()).collect();
    assert_eq!(names, ["source"], "nothing was made");
    let folder = "./sftp:me@nas:/b";
    sandbox.run(["init", "--encryption", "none", "--repo", folder]).well();
    assert!(sandbox.path("sftp:me@nas:/b/config").is_dir(), "the folder of that name");
}

#[test]
fn file_url_names_its_folder() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let folder = sandbox.path("a b%");
    let folder = folder.to_str().expect("UTF-8");
    let path = folder.replace('%', "%25").replace(' ', "%20");
    let urls = [format!("file://{path}"), format!("file://localhost{path}")];
    sandbox.run(["init", "--encryption", "none", "--repo", &urls[0]]).well();
    run(sandbox.command(["backup", "source"]).env("CUTPOINT_REPO", &urls[1])).well();
    for place in [folder, &urls[0], &urls[1]] {
        assert_eq!(sandbox.run(["snapshots", "--repo", place]).well().text().lines().count(), 2);
    }
    // The repository is found among the sources, and excluded.
    let own = sandbox.path("");
    let mut command = sandbox.command(["backup", "--repo", &urls[0]]);
    run(command.arg(own)).ended(0, &["The repository itself", "is excluded"]);
    sandbox
        .run(["snapshots", "--repo", "file://nas/b"])
        .ended(2, &["expected no host or localhost, found nas", "file:///FOLDER"]);
}

#[test]
fn empty_variable_counts_as_unset() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "x").expect("written");
    let without = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("CUTPOINT_REPO", "").env("CUTPOINT_PASSPHRASE", "");
        run(command.env("CUTPOINT_NEW_PASSPHRASE", ""))
    };
    without(&["snapshots"]).ended(2, &["no repository given", "CUTPOINT_REPO"]);
    without(&["cut", "file"]).well();
    without(&["init", "--repo", "repo"]).ended(12, &["no passphrase and no key given"]);
    without(&["init", "--repo", "repo", "--key-file", "key"]).well();
    without(&["key", "add", "--repo", "repo", "--key-file", "key"])
        .ended(2, &["no secret given for the new key"]);
    assert!(!sandbox.path("snapshots").exists(), "an empty place is no folder");
}

#[test]
fn init_in_an_occupied_place_is_refused() {
    let sandbox = Sandbox::with_repository();
    sandbox.run(["init", "--encryption", "none"]).ended(2, &["a repository exists already"]);
    make_source(&sandbox.path("source"));
    sandbox
        .run(["init", "--encryption", "none", "--repo", "source"])
        .ended(2, &["source: not empty and not a repository", "does not exist"]);
    assert!(!sandbox.path("source/config").exists(), "nothing was made");
    sandbox
        .run(["init", "--encryption", "none", "--repo", "new", "--region-size", "1"])
        .ended(2, &["--region-size: 1 B is out of range (expected 16 KiB to 4 MiB)"]);
    sandbox
        .run(["init", "--encryption", "none", "--repo", "new", "--cut", "nonsense"])
        .ended(2, &["cut specification", "nonsense"]);
    // The cut-points would be the same as those of all users, although secret ones are promised.
    let cut = "bfbc:pairs=6520,min=4k,max=64k";
    sandbox
        .run(["init", "--repo", "secret", "--cut", cut])
        .ended(2, &["cut specification", "bfbc: key: cannot be used"]);
    assert!(!sandbox.path("secret").exists(), "nothing was made");
    sandbox.run(["init", "--encryption", "none", "--repo", "open", "--cut", cut]).well();
}

#[test]
fn interrupted_init_can_be_repeated() {
    let sandbox = Sandbox::new();
    let remove_config = || {
        for copy in ["", ".copy"] {
            let name = format!("repo/config/00000000000000000000{copy}");
            fs::remove_file(sandbox.path(name)).expect("the config goes");
        }
    };
    sandbox.run(["init", "--key-file", "key"]).well();
    remove_config();
    sandbox.run(["snapshots", "--key-file", "key"]).ended(10, &["no repository found"]);
    // The second attempt behaves as if the first one had not happened.
    sandbox.run(["init", "--key-file", "key"]).well();
    make_source(&sandbox.path("source"));
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
    assert_eq!(fs::read_dir(sandbox.path("repo/keys")).expect("keys").count(), 2, "one key, twice");
    // With any stored data, the missing config is damage.
    remove_config();
    sandbox
        .run(["snapshots", "--key-file", "key"])
        .ended(11, &["keys found, but no config", "cutpoint check"]);
    sandbox.run(["init", "--key-file", "key"]).ended(2, &["a repository exists already"]);
}

#[test]
fn missing_sources_and_paths_are_reported() {
    let sandbox = Sandbox::with_source();
    sandbox
        .run(["backup", "gone", "nowhere"])
        .ended(2, &["source gone: not found", "source nowhere: not found"]);
    sandbox.run(["backup"]).ended(2, &["PATH"]);
    sandbox.run(["frobnicate"]).ended(2, &["frobnicate"]);
    sandbox.run(["ls", "latest"]).ended(2, &["cutpoint: no snapshot\n"]);
    sandbox.backup("source");
    sandbox.run(["ls", "latest:/no/such"]).ended(2, &[" has no /no/such\n"]);
    let snapshots = sandbox.json(["snapshots"]);
    let id = &snapshots[0]["id"].as_str().expect("an id")[..8];
    sandbox.run(["cat", "latest:/"]).ended(
        2,
        &[
            "/: folder (expected a file)",
            &format!("`cutpoint ls {id}:/` lists"),
            &format!("`cutpoint restore {id}:/ --to TARGET`"),
            &format!("`cutpoint dump {id}:/ > FILE.tar`"),
        ],
    );
    sandbox.run(["ls", &format!("{id}:/")]).well();
    sandbox.run(["dump", &format!("{id}:/")]).well();
    sandbox.run(["cat", "latest"]).ended(2, &["SNAPSHOT:PATH"]);
    sandbox.run(["backup", "source", "--exclude", "[z-a]"]).ended(2, &["[z-a]"]);
    let mut command = sandbox.command(["restore", "latest", "--to"]);
    run(command.arg(sandbox.path("source/hello"))).ended(2, &["source/hello"]);
}

/// `/proc/PID/environ` of a process that is not dumpable belongs to root, and only root may read
/// it. The uses of `/proc/self/fd` in backup and restore (extended attributes, nameless files) must
/// work all the same.
#[cfg(target_os = "linux")]
#[test]
fn memory_and_environment_are_hidden_from_other_processes_of_the_user() {
    let sandbox = Sandbox::with_source();
    let attribute = |path: &std::path::Path| {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(path, "user.color", &mut value[..]);
        length.map(|length| value[..length].to_vec()).ok()
    };
    let file = sandbox.path("source/sub/deep/text");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&file, "user.color", b"red", flags).ok();
    if !sandbox.give_away() {
        return;
    }
    run(&mut sandbox.command_of_user(["backup", "source"])).well();
    run(&mut sandbox.command_of_user(["restore", "latest", "--to", "back"])).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("absolute"));
    assert_eq!(describe(&back), describe(&source), "what came back");
    assert_eq!(attribute(&back.join("sub/deep/text")), attribute(&file), "its attribute, too");

    let mut command = sandbox.command_of_user(["backup", "--stdin"]);
    let tickets = || fs::read_dir(sandbox.path("repo/tickets")).map_or(0, Iterator::count);
    let before = tickets();
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // The ticket shows that the writer is at work.
    while tickets() == before {
        assert!(child.try_wait().expect("a child").is_none(), "it waits for its input");
        std::thread::sleep(Duration::from_millis(10));
    }
    let environ = format!("/proc/{}/environ", child.id());
    let owner = fs::metadata(&environ).expect("the process is there").uid();
    let is_readable = fs::read(&environ).is_ok();
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    assert_eq!(owner, 0, "root's, not of the user whose process it is");
    assert_eq!(is_readable, is_root(), "the environment is hidden");
}

#[test]
fn missing_source_makes_an_incomplete_snapshot() {
    let sandbox = Sandbox::with_source();
    fs::create_dir(sandbox.path("disk")).expect("made");
    fs::write(sandbox.path("disk/file"), "what is on the disk").expect("written");
    sandbox.run(["backup", "source", "disk"]).well();
    fs::rename(sandbox.path("disk"), sandbox.path("unmounted")).expect("moved");
    let disk = sandbox.path("disk");
    let disk = disk.to_str().expect("UTF-8");
    sandbox
        .run(["backup", "source", "disk"])
        .ended(1, &["disk: source skipped: not found", "1 problem", &format!("without {disk}")]);
    let events = sandbox.json(["snapshots"]);
    let missing: Vec<_> = events.iter().map(|event| event["missing_sources"].to_string()).collect();
    assert_eq!(missing, ["[]".to_owned(), format!("[{{\"path\":\"{disk}\"}}]")]);
    assert_eq!(events[1]["sources"][1]["path"], disk, "the sources are those that were given");
    let table = sandbox.run(["snapshots"]).well();
    let marked = format!("(incomplete: without {disk})");
    let lines: Vec<bool> = table.text().lines().map(|line| line.contains(&marked)).collect();
    assert_eq!(lines, [false, false, true], "{}", table.text());
    // The newest snapshot is `latest`, and its gaps are reported.
    let arguments = ["restore", "latest", "--to", "back"];
    sandbox.run(arguments).ended(0, &["has nothing of", disk]);
    // No rule takes it for the newest complete one.
    for rule in ["--keep-last", "--keep-daily"] {
        let kept = sandbox.json(["forget", rule, "1", "--dry-run"]);
        let kept: Vec<_> = kept.iter().filter(|event| event["kept"] == true).collect();
        assert!(kept.iter().any(|event| event["id"] == events[0]["id"]), "{rule}: {kept:?}");
    }
    sandbox.run(["forget", "--keep-last", "1"]).well();
    assert_eq!(sandbox.json(["snapshots"]).len(), 2, "both are kept");
}

#[test]
fn missing_permission_is_reported() {
    let sandbox = Sandbox::with_source();
    if !sandbox.give_away() {
        return;
    }
    let as_user = |arguments: &[&str]| run(&mut sandbox.command_of_user(arguments));
    let close = |path: &str, mode| {
        fs::set_permissions(sandbox.path(path), fs::Permissions::from_mode(mode)).expect("set");
    };
    close("source/big", 0o000);
    as_user(&["backup", "source"]).ended(1, &["source/big: ", "ermission denied", "1 problem"]);
    // A source that cannot be opened is treated as a missing one.
    close("source/sub", 0o000);
    let two = ["backup", "source/sub", "source/hello"];
    as_user(&two).ended(1, &["source/sub: source skipped: Permission denied", "1 problem"]);
    as_user(&["backup", "source/big", "source/sub"]).ended(2, &["source/big: Permission denied"]);
    close("source/sub", 0o755);
    let place = sandbox.path("repo").display().to_string();
    for closed in ["repo/config", "repo/keys", "repo/commits", "repo"] {
        close(closed, 0o000);
        let texts = ["ermission denied", &*place, "run as a user with permission"];
        as_user(&["snapshots"]).ended(2, &texts);
        close(closed, 0o755);
    }
    close("repo/commits", 0o555);
    let texts = ["ermission denied", &*place, "run as a user with permission"];
    as_user(&["backup", "source"]).ended(2, &texts);
    close("repo/commits", 0o755);
}

/// In `/proc`, not even root can create a folder.
#[test]
fn place_in_which_no_folder_can_be_created_is_named() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let texts =
        ["/proc/x/y: cannot be created: ", "choose a place in which folders can be created"];
    let place = ["--repo", "/proc/x/y", "--encryption", "none"];
    sandbox.run(["init"].iter().chain(&place)).ended(2, &texts);
    sandbox.run(["backup", "source", "--init"].iter().chain(&place)).ended(2, &texts);
    symlink("nowhere", sandbox.path("link")).expect("a link");
    let init = ["init", "--encryption", "none", "--repo", "link"];
    sandbox.run(init).ended(2, &["link: cannot be created: exists already", "choose a place"]);
}

#[test]
fn damaged_settings_are_reported() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    flip(&sandbox.path("repo/config/00000000000000000000"), 100);
    sandbox.run(["snapshots"]).well();
    flip(&sandbox.path("repo/config/00000000000000000000.copy"), 100);
    sandbox.run(["snapshots"]).ended(11, &["config/00000000000000000000", "put config/ back"]);
}

#[test]
fn damaged_data_is_reported_and_the_rest_restored() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    // Each file is larger than a region, so that they do not share one.
    for (seed, name) in [(1, "first"), (2, "second")] {
        let bytes = SplitMix64::bytes(seed, 1_000_000);
        fs::write(sandbox.path("source").join(name), bytes).expect("written");
    }
    sandbox.backup("source");
    let objects = sandbox.json(["debug", "--list"]);
    let data = objects
        .iter()
        .filter_map(|object| object["name"].as_str())
        .find(|name| name.starts_with("data/"))
        .expect("a container");
    flip(&sandbox.path("repo").join(data), 5_000);
    let run = sandbox.run(["restore", "latest", "--to", "back"]);
    let run = run.ended(1, &["problem: ", "1 problem"]);
    let back = sandbox.path("back").join(sandbox.path("source").strip_prefix("/").expect("/"));
    assert!(run.stderr.contains("source/first: "), "named: {}", run.stderr);
    assert!(!back.join("first").exists(), "the damaged file is not there");
    let second = fs::read(back.join("second")).expect("the other is");
    assert!(second == SplitMix64::bytes(2, 1_000_000), "and whole");
    let mut path = sandbox.path("source/first").into_os_string();
    path.push("");
    let mut command = sandbox.command(["cat", "latest"]);
    crate::sandbox::run(command.arg(path)).ended(11, &["data/"]);
}

/// Runs the program with a limit on the number of blocks of a file, which has the effect of a full
/// disk and can be set by every user.
fn limited(sandbox: &Sandbox, block_count: u32, arguments: &str) -> Run {
    let program = env!("CARGO_BIN_EXE_cutpoint");
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -f {block_count}; exec '{program}' {arguments}")])
        .current_dir(sandbox.path(""))
        .env("CUTPOINT_REPO", sandbox.path("repo"))
        .env("HOME", sandbox.path("home"))
        .stdin(Stdio::null());
    run(&mut command)
}

/// Another `init` may have read the key file created by this one, and be the one that succeeds.
#[test]
fn failed_init_leaves_its_key_file() {
    let sandbox = Sandbox::new();
    let init = "init --key-file key --recovery-kit kit";
    limited(&sandbox, 20, init).ended(14, &["File too large"]);
    assert!(sandbox.path("key").exists() && !sandbox.path("kit").exists(), "an empty kit");
    limited(&sandbox, 1000, init).well();
    limited(&sandbox, 1000, "snapshots --key-file key").well();
}

#[test]
fn full_disk_is_reported() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    let bytes = SplitMix64::bytes(5, 3_000_000);
    fs::write(sandbox.path("source/big"), &bytes).expect("written");
    let limited = |arguments: &str| limited(&sandbox, 1000, arguments);
    fs::write(sandbox.path("source/small"), "small").expect("written");
    let full = ["data/", "File too large", "free some space and run the same command again"];
    limited("backup source").ended(14, &full);
    sandbox.run(["backup", "source"]).well();
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    // The limit applies to each file, so the files that fit are restored.
    let named = ["source/big: cannot be created", "File too large", "ulimit -f", "1 problem"];
    limited("restore latest --to again").ended(1, &named);
    let source = sandbox.path("source");
    let again = sandbox.path("again").join(source.strip_prefix("/").expect("an absolute path"));
    assert!(fs::read(again.join("small")).is_ok_and(|bytes| bytes == b"small"), "what fits");
    assert!(!again.join("big").exists(), "no part of what does not");
    // A file that cannot be replaced stays.
    fs::write(again.join("big"), "mine").expect("written");
    limited("restore latest --to again --overwrite replace").ended(1, &["1 problem"]);
    assert!(fs::read(again.join("big")).is_ok_and(|bytes| bytes == b"mine"), "it was replaced");
    let names = fs::read_dir(&again).expect("the folder is read").count();
    assert_eq!(names, 2, "and nothing beside it");
}

/// Names can be chosen by attackers. No name in a message may move the cursor of a terminal.
#[test]
fn messages_are_escaped_for_a_terminal() {
    let sandbox = Sandbox::with_source();
    let name = "re\u{1b}]0;po\u{7}\u{9b}2J";
    for arguments in [&["init"][..], &["backup", "source"], &["restore", "latest", "--to", "x"]] {
        let mut command = sandbox.command(arguments);
        command.args(["--repo", name, "--encryption", "none", "-v"]);
        let told = run(&mut command);
        let is_bad = |each: char| each.is_control() && each != '\n';
        assert!(!told.stderr.contains(is_bad), "{arguments:?} said {:?}", told.stderr);
        told.well();
    }
    let told = sandbox.run(["init", "--repo", name, "--encryption", "none"]);
    assert!(!told.stderr.contains('\u{1b}'), "init said {:?}", told.stderr);
    told.ended(2, &["re\\x1b]0;po\\x07\\u{9b}2J: a repository exists already"]);
}

/// A small file system at `folder` of the sandbox, until it is dropped.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// Mounts a file system. Returns `None`, with a message, if the test may not mount.
    pub(crate) fn mount(sandbox: &Sandbox, folder: &str, size: &str) -> Option<SmallDisk> {
        let path = sandbox.path(folder);
        fs::create_dir_all(&path).expect("a folder is made");
        let options = format!("size={size},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(SmallDisk(path));
        }
        eprintln!("skipped: this user may not mount a tmpfs");
        None
    }

    fn grow(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(&self.0);
        assert!(mount.status().is_ok_and(|status| status.success()), "it grows");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn run_on_a_full_disk_publishes_its_data() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(&sandbox, "repo", "120m") else { return };
    sandbox.run(["init", "--encryption", "none"]).well();
    fs::create_dir(sandbox.path("source")).expect("made");
    let small = SplitMix64::bytes(1, 1_000_000);
    fs::write(sandbox.path("source/small"), &small).expect("written");
    sandbox.backup("source");
    // Less data than an index segment waits for, so it is published because the disk is full.
    let big = SplitMix64::bytes(5, 180_000_000);
    fs::write(sandbox.path("source/big"), &big).expect("written");
    for _ in 0..2 {
        let full = sandbox.run(["backup", "source"]);
        // The object that did not fit, the reason, and the remedy are reported.
        let full =
            full.ended(14, &["No space left", "free some space and run the same command again"]);
        let object = ["data/", "meta/", "tickets/", "index/", "commits/"];
        assert!(object.iter().any(|name| full.stderr.contains(name)), "named: {}", full.stderr);
        // Everything that was completed is intact, on a disk without any space left.
        sandbox.run(["check", "--read-data"]).ended(0, &["No problems found"]);
        assert_eq!(sandbox.json(["snapshots"]).len(), 1, "the first snapshot");
        sandbox.run(["restore", "latest", "--to", "first", "--overwrite", "replace"]).well();
    }
    disk.grow("400m");
    let events = sandbox.json(["backup", "source"]);
    let new_bytes = events.last().expect("a summary")["new_bytes"].as_u64().expect("a number");
    assert!(new_bytes < 100_000_000, "{new_bytes} bytes are stored again");
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["restore", "latest", "--to", "second"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("second").join(source.strip_prefix("/").expect("an absolute path"));
    assert!(fs::read(back.join("big")).is_ok_and(|bytes| bytes == big), "the big file");

    // The target is too small.
    let target = SmallDisk::mount(&sandbox, "target", "12m").expect("the first one was mounted");
    let restore = ["restore", "latest", "--to", "target", "--overwrite", "changed"];
    sandbox.run(restore).ended(14, &["source/", "No space left", "free some space", "to continue"]);
    target.grow("400m");
    sandbox.run(restore).well();
    let back = sandbox.path("target").join(source.strip_prefix("/").expect("an absolute path"));
    assert!(fs::read(back.join("big")).is_ok_and(|bytes| bytes == big), "the big file");
}

#[test]
fn closed_standard_output_is_no_error() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("data"), SplitMix64::bytes(1, 4 << 20)).expect("written");
    let mut child = sandbox
        .command(["cut", "-a", "fixed:size=16", "data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("read");
    assert_eq!((first.as_str(), said.as_str()), ("16\n", ""), "one line, no complaint");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "exit code");
}

#[test]
fn interrupted_backup_ends_gracefully() {
    for signal in ["INT", "TERM"] {
        let sandbox = Sandbox::with_repository();
        // The stream never ends, so that the signal arrives during the backup.
        let mut child = sandbox
            .command(["backup", "--stdin", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let feeder = std::thread::spawn(move || {
            use std::io::Write;
            let mut source = SplitMix64::new(4);
            while stdin.write_all(&source.take(64 * 1024)).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        std::thread::sleep(Duration::from_millis(700));
        let process_id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process_id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
        let output = child.wait_with_output().expect("it ends");
        feeder.join().expect("the feeder ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "SIG{signal}: {said}");
        assert!(said.contains("run the same command again"), "SIG{signal}: {said}");
        let last = output.stdout.trim_ascii_end().rsplit(|&byte| byte == b'\n').next();
        let last = String::from_utf8_lossy(last.expect("a line")).into_owned();
        assert!(last.contains(r#""kind":"interrupted","exit_code":130"#), "SIG{signal}: {last}");
        assert_eq!(sandbox.json(["snapshots"]).len(), 0, "no snapshot");
    }
}

/// Starts a backup of a stream that never delivers anything. Returns it with a function that sends
/// it a signal.
fn stalled(sandbox: &Sandbox) -> (Child, impl Fn(&str)) {
    let child = sandbox
        .command(["backup", "--stdin"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_millis(500));
    let process_id = child.id().to_string();
    let send = move |signal: &str| {
        let sent = Command::new("kill").args(["-s", signal, &process_id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{signal} is sent");
    };
    (child, send)
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    // The pipe at standard input stays open until the process has ended.
    let stdin = child.stdin.take();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    drop(stdin);
    (status.code(), said)
}

#[test]
fn first_signal_ends_a_stalled_stream() {
    let sandbox = Sandbox::with_repository();
    let (child, send) = stalled(&sandbox);
    send("INT");
    let (code, said) = end(child);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("run the same command again"), "it ends well: {said}");
}

#[test]
fn second_signal_ends_at_once() {
    let sandbox = Sandbox::with_repository();
    // Two threads may handle one signal each at the same moment. Neither is the second one then.
    let ended_at_once = (0..5).any(|_| {
        let (child, send) = stalled(&sandbox);
        // Both signals arrive before the run can end by itself.
        for signal in ["STOP", "INT", "TERM", "CONT"] {
            send(signal);
        }
        let (code, said) = end(child);
        assert_eq!(code, Some(130), "{said}");
        said.is_empty()
    });
    assert!(ended_at_once, "there is no time for words");
    // The objects left behind do no harm.
    sandbox.run(["snapshots"]).well();
}

/// A file of the kernel that claims a page in size and has a few bytes.
#[test]
fn file_that_ends_early_is_reported_by_backup_restore_and_cat() {
    let file = "/sys/kernel/uevent_seqnum";
    if !fs::metadata(file).is_ok_and(|meta| meta.len() == 4096) {
        return cutpoint_testing::skipped(&format!("there is no {file} of 4096 bytes"));
    }
    let sandbox = Sandbox::with_repository();
    // Such a file gets new times when its attributes are read for the first time.
    sandbox.run(["backup", file]).ended(1, &[file, "1 problem"]);
    sandbox.run(["backup", file]).ended(1, &[file, "ended early (expected 4096, read "]);
    let told = &["was created with 1 problem", &file[1..], "ended early"];
    sandbox.run(["restore", "latest", "--to", "back"]).ended(0, told);
    sandbox.run(["cat", &format!("latest:{file}")]).ended(0, told);
}
