//! From a folder to a repository and back.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use cutpoint_testing::SplitMix64;
use serde_json::json;

use crate::sandbox::{Sandbox, describe, make_source, run, run_with_input};

/// Returns `latest:` with a path of the sandbox.
fn latest(sandbox: &Sandbox, path: &str) -> OsString {
    let mut text = b"latest:".to_vec();
    text.extend_from_slice(sandbox.path(path).as_os_str().as_bytes());
    OsString::from_vec(text)
}

#[test]
fn folder_is_restored_as_it_was() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let before = describe(&sandbox.path("source"));
    sandbox.run(["backup", "source", "--init", "--key-file", "key"]).well();
    let key = ["--key-file", "key"];

    let list = sandbox.run(["snapshots"].iter().chain(&key)).well();
    assert!(list.text().contains(&sandbox.path("source").display().to_string()), "the source");
    let source = latest(&sandbox, "source");
    let mut names = sandbox.command(["ls"]);
    let names = run(names.arg(&source).args(key)).well();
    let expected =
        "big\ndangling\nempty\nempty folder/\nhello\nnot \\xff UTF-8\npipe\nsparse\nsub/\n";
    assert_eq!(names.text(), expected, "ls");
    let mut cat = sandbox.command(["cat", "latest"]);
    let cat = run(cat.arg(sandbox.path("source/sub/copy of big")).args(key)).well();
    assert!(cat.stdout == SplitMix64::bytes(1, 700_000), "cat");
    let mut cat = sandbox.command(["cat"]);
    let cat = run(cat.arg(latest(&sandbox, "source/sparse")).args(key)).well();
    assert!(cat.stdout == vec![0; 3_000_000], "cat of a hole");

    let mut restore = sandbox.command(["restore"]);
    run(restore.arg(&source).args(["--to", "back"]).args(key)).well();
    // The target folder itself existed, and keeps its metadata.
    assert_eq!(describe(&sandbox.path("back"))[1..], before[1..], "what came back");
    sandbox.run(["restore", "latest", "--to", "whole"].iter().chain(&key)).well();
    let whole = sandbox.path("whole").join(sandbox.path("source").strip_prefix("/").expect("/"));
    assert_eq!(describe(&whole), before, "what came back below its folders");
    assert_eq!(describe(&sandbox.path("source")), before, "the source is as it was");
}

/// A symbolic link or a pipe with several names is not a file.
#[test]
fn further_names_count_as_what_they_are() {
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    make_source(&source);
    fs::hard_link(source.join("dangling"), source.join("dangling too")).expect("linked");
    fs::hard_link(source.join("pipe"), source.join("pipe too")).expect("linked");
    sandbox.backup("source");
    let summary = |arguments: &[&str]| sandbox.json(arguments).pop().expect("a summary");
    for more in [&[][..], &["--dry-run"][..]] {
        let restored = summary(&[&["restore", "latest:source", "--to", "back"][..], more].concat());
        let count = |name: &str| restored[name].as_u64().expect("a number");
        assert_eq!(count("written_file_count") + count("linked_count"), 9, "files: {restored}");
        assert_eq!(count("symlink_count"), 3, "{restored}");
        assert_eq!(count("special_count"), 2, "{restored}");
        fs::remove_dir_all(sandbox.path("back")).ok();
    }
    sandbox.run(["dump", "latest:source"]).ended(0, &["Wrote 9 files", "3 symbolic links"]);
}

/// All that a snapshot can keep of a socket, a pipe or a device is saved.
#[test]
fn special_files_are_named_on_request_without_a_warning() {
    let sandbox = Sandbox::with_source();
    let socket = UnixListener::bind(sandbox.path("source/socket")).expect("a socket");
    let plain = sandbox.run(["backup", "source"]).well();
    assert!(!plain.stderr.contains("warning"), "{}", plain.stderr);
    drop(socket);
    sandbox.run(["backup", "source", "-v"]).ended(
        0,
        &[
            &format!("socket       {}\n", sandbox.path("source/socket").display()),
            &format!("pipe         {}\n", sandbox.path("source/pipe").display()),
        ],
    );
    let events = sandbox.json(["backup", "source", "-v"]);
    let reasons: Vec<_> = events.iter().filter_map(|event| event["reason"].as_str()).collect();
    assert!(reasons.contains(&"socket") && reasons.contains(&"pipe"), "{reasons:?}");
}

#[test]
fn tree_is_indented_and_folders_have_total_sizes() {
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    fs::create_dir_all(source.join("a/deep/er")).expect("folders");
    fs::create_dir(source.join("none")).expect("a folder");
    for (name, len) in [("a/deep/er/x", 1000), ("a/y", 24), ("z", 2048)] {
        fs::write(source.join(name), vec![1; len]).expect("written");
    }
    std::os::unix::fs::symlink("z", source.join("link")).expect("a link");
    sandbox.backup("source");
    let list =
        |path: &str| run(sandbox.command(["ls", "--tree"]).arg(latest(&sandbox, path))).well();
    let lines = [
        format!("   3.0 KiB  {}/", source.display()),
        "   1.0 KiB    a/".to_owned(),
        "    1000 B      deep/".to_owned(),
        "    1000 B        er/".to_owned(),
        "    1000 B          x".to_owned(),
        "      24 B      y".to_owned(),
        "              link".to_owned(),
        "       0 B    none/".to_owned(),
        "   2.0 KiB    z".to_owned(),
    ];
    assert_eq!(list("source").text().lines().collect::<Vec<_>>(), lines, "a folder");
    let file = format!("{}\n", source.join("z").display());
    assert_eq!(list("source/z").text(), file, "a file");
    let root = sandbox.run(["ls", "latest", "--tree"]).well();
    assert!(root.text().starts_with("   3.0 KiB  /\n"), "the root: {}", root.text());
    sandbox.run(["ls", "latest", "--tree", "--json"]).ended(2, &["no --json"]);
    sandbox.run(["ls", "latest", "--tree", "-R"]).ended(2, &["--recursive"]);
}

#[test]
fn second_backup_stores_changes_only() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    // The file sorts last and is too large to share a chunk. Small files that had just been written
    // at the first backup are read again, and form the same bundles.
    fs::write(sandbox.path("source/zz new"), SplitMix64::bytes(9, 100_000)).expect("a new file");
    let events = sandbox.json(["backup", "source", "--tag", "a", "--tag", "b"]);
    let summary = events.last().expect("a summary");
    assert_eq!(summary["parent"], first.as_str(), "the parent");
    assert_eq!(summary["new_bytes"], 100_000, "only the new file");
    let second = summary["snapshot"].as_str().expect("an id").to_owned();

    let list = sandbox.json(["snapshots"]);
    let ids: Vec<_> = list.iter().map(|event| event["id"].as_str()).collect();
    assert_eq!(ids, [Some(&*first), Some(&*second)], "both are there, in order");
    assert_eq!(sandbox.json(["snapshots", "--tag", "b"]).len(), 1, "by tag");
    assert_eq!(sandbox.json(["snapshots", "--tag", "b", "--tag", "c"]).len(), 0, "by both tags");
    assert_eq!(sandbox.json(["snapshots", "--host", "elsewhere"]).len(), 0, "by host");

    let stats = sandbox.json(["stats"]);
    assert_eq!(stats[0]["snapshot_count"], 2, "stats");
    let ratio = stats[0]["dedup_ratio"].as_f64().expect("a ratio");
    assert!(ratio > 2.0, "two snapshots and a copy in each, but dedup_ratio is {ratio}");
    let parent = sandbox.json(["backup", "source", "--parent", &first[..8]]);
    assert_eq!(parent.last().expect("a summary")["parent"], first.as_str(), "--parent");
    let none = sandbox.json(["backup", "source", "--parent", "none"]);
    assert!(none.last().expect("a summary")["parent"].is_null(), "--parent none");
}

/// Two clients store the same files at once, because neither sees the commit of the other.
#[test]
fn stats_count_copies_of_two_clients_once() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let once = sandbox.json(["stats"]).remove(0);
    assert_eq!(once["copied_bytes"], 0, "one copy of each chunk");
    // The second one does not see the commit of the first, nor its ticket, for which it would put a
    // `void`.
    for ticket in fs::read_dir(sandbox.path("repo/tickets")).expect("a folder") {
        fs::remove_file(ticket.expect("it lists").path()).expect("it goes");
    }
    let commits = fs::read_dir(sandbox.path("repo/commits")).expect("a folder");
    let commits: Vec<_> = commits.map(|entry| entry.expect("it lists").path()).collect();
    fs::rename(sandbox.path("repo/commits"), sandbox.path("aside")).expect("it moves");
    fs::create_dir(sandbox.path("repo/commits")).expect("a folder");
    let mut backup = sandbox.command(["backup", "source", "--host", "elsewhere"]);
    run(backup.env("HOME", sandbox.path("another home"))).well();
    for commit in commits {
        let name = commit.file_name().expect("a name");
        fs::rename(sandbox.path("aside").join(name), &commit).expect("it moves back");
    }
    let twice = sandbox.json(["stats"]).remove(0);
    assert_eq!(twice["snapshot_count"], 2);
    for field in ["unique_bytes", "data_chunk_count", "matched_bytes", "compressed_bytes"] {
        assert_eq!(twice[field], once[field], "{field}");
    }
    assert_eq!(twice["copied_bytes"], once["unique_bytes"], "all of it is there twice");
    let bytes = |field: &str| twice[field].as_u64().expect("a number");
    assert_eq!(bytes("logical_bytes"), 2 * once["logical_bytes"].as_u64().expect("a number"));
    let stats = sandbox.run(["stats"]).well();
    assert!(stats.text().contains("copies"), "{}", stats.text());
}

#[test]
fn snapshots_are_found_by_their_first_digits() {
    let sandbox = Sandbox::with_source();
    let id = sandbox.backup("source");
    sandbox.run(["ls", &id[..4]]).well();
    sandbox.run(["ls", &id.to_uppercase()]).well();
    sandbox.run(["ls", &id[..3]]).ended(2, &["too short", "4 digits"]);
    sandbox.run(["ls", "0000000000"]).ended(2, &["snapshot `0000000000`: not found"]);
    sandbox.run(["ls", "newest"]).ended(2, &["expected an ID, `latest` or a date"]);
    sandbox
        .run(["ls", "latest", "--host", "elsewhere"])
        .ended(2, &["no snapshot of host elsewhere\n"]);
}

#[test]
fn standard_input_becomes_a_file() {
    let sandbox = Sandbox::with_repository();
    let data = SplitMix64::bytes(3, 300_000);
    let arguments = ["backup", "--stdin", "--stdin-filename", "dump.sql"];
    run_with_input(&mut sandbox.command(arguments), &data).well();
    let cat = sandbox.run(["cat", "latest:dump.sql"]).well();
    assert!(cat.stdout == data, "the stream came back");
    sandbox.run(["restore", "latest:dump.sql", "--to", "back"]).well();
    assert!(fs::read(sandbox.path("back")).is_ok_and(|bytes| bytes == data), "restored");
}

#[test]
fn restore_overwrites_only_on_request() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let restore = |how: &[&str]| {
        let mut command = sandbox.command(["restore"]);
        run(command.arg(latest(&sandbox, "source")).args(["--to", "back"]).args(how))
    };
    let file = sandbox.path("back/hello");
    restore(&[]).well();
    fs::write(&file, "mine").expect("the file is changed");
    restore(&[]).ended(1, &["problem: hello: "]);
    assert!(fs::read(&file).is_ok_and(|bytes| bytes == b"mine"), "it stays");
    let events = restore(&["--overwrite", "changed", "--json"]).well().events();
    let summary = events.last().expect("a summary");
    assert!(summary["unchanged_count"].as_u64() > Some(3), "most was there: {summary}");
    assert!(fs::read(&file).is_ok_and(|bytes| bytes == b"hello, world\n"), "it is replaced");
    restore(&["--overwrite", "replace"]).well();
    assert_eq!(
        describe(&sandbox.path("back")).len(),
        describe(&sandbox.path("source")).len(),
        "nothing more, nothing less"
    );
}

#[test]
fn created_target_gets_the_metadata_of_its_folder() {
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source/sub");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o2751)).expect("permissions");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(&source).and_then(|folder| folder.set_modified(time)).expect("a time is set");
    sandbox.backup("source");
    let restore = |how: &[&str]| {
        let mut command = sandbox.command(["restore"]);
        run(command.arg(latest(&sandbox, "source/sub")).args(["--to", "back"]).args(how)).well();
        let stat = fs::metadata(sandbox.path("back")).expect("it is there");
        (stat.permissions().mode() & 0o7777, stat.modified().expect("a time"))
    };
    assert_eq!(restore(&[]), (0o2751, time), "of a target that was made");
    fs::remove_dir_all(sandbox.path("back")).expect("removed");
    fs::create_dir(sandbox.path("back")).expect("made");
    fs::set_permissions(sandbox.path("back"), fs::Permissions::from_mode(0o700)).expect("set");
    let (mode, found) = restore(&[]);
    assert_eq!(mode, 0o700, "of a target that was there");
    assert_ne!(found, time, "of a target that was there");
    let some = restore(&["deep", "--overwrite", "changed"]);
    assert_eq!(some.0, 0o700, "a folder on the way is left as it is");
    assert_eq!(restore(&["--overwrite", "changed"]), (0o2751, time), "where it may be overwritten");
    fs::remove_dir_all(sandbox.path("back")).expect("removed");
    assert_eq!(restore(&["deep"]), (0o2751, time), "a folder on the way that was made");
}

#[test]
fn restore_can_select_paths() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let mut command = sandbox.command(["restore"]);
    command.arg(latest(&sandbox, "source")).args(["sub/deep", "hello", "--to", "back"]);
    run(&mut command).well();
    let lines = describe(&sandbox.path("back"));
    let names: Vec<_> = lines.iter().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(names, ["", "hello", "sub", "sub/deep", "sub/deep/text"], "what came back");
    let mut command = sandbox.command(["restore"]);
    command.arg(latest(&sandbox, "source")).args(["nowhere", "--to", "back"]);
    run(&mut command).ended(2, &["/source/nowhere\n"]);
}

#[test]
fn excluded_files_are_not_saved() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("patterns"), "# a comment\n\n/**/sub/deep/\n").expect("written");
    let arguments =
        ["backup", "source", "--exclude", "*big*", "--exclude-file", "patterns", "--json"];
    let events = sandbox.run(arguments).well().events();
    assert_eq!(events.last().expect("a summary")["excluded_count"], 3, "how many");
    let list = sandbox.run(["ls", "-R", "latest"]).well();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.contains("sub/link") && !list.contains("big") && !list.contains("deep"), "{list}");
}

#[test]
fn repository_inside_of_a_source_is_excluded() {
    let sandbox = Sandbox::with_source();
    sandbox.run(["backup", "."]).ended(0, &["The repository itself", "is excluded"]);
    let list = sandbox.run(["ls", "-R", "latest"]).well();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.contains("/source/hello"), "the rest is there: {list}");
    assert!(!list.contains("/repo/config"), "the repository is not: {list}");
    sandbox.run(["backup", "repo"]).ended(2, &["cannot be saved into itself"]);
    sandbox.run(["backup", "repo/data"]).ended(2, &["cannot be saved into itself"]);
}

#[test]
fn unchanged_source_needs_no_snapshot() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let arguments = ["backup", "source", "--skip-if-unchanged", "--force-read"];
    sandbox.run(arguments).ended(0, &["Nothing has changed"]);
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "only the first");
}

#[test]
fn settings_change() {
    let sandbox = Sandbox::with_repository();
    let changed = sandbox.run(["config", "--cut", "seqcdc:avg=16k", "--region-size", "256k"]);
    let changed = changed.ended(0, &["duplicates of data saved before are no longer found"]);
    assert!(changed.text().contains("seqcdc:mode=inc"), "written out: {}", changed.text());
    let settings = sandbox.json(["config", "--compression-level", "-3"]);
    let value = |name: &str| {
        let setting = settings.iter().find(|setting| setting["name"] == name);
        setting.unwrap_or_else(|| panic!("{name} is missing"))["value"].clone()
    };
    assert_eq!(value("region_size_bytes"), 262_144, "kept");
    assert_eq!(value("compression_level"), -3, "changed");
    assert_eq!(value("config_number"), 2, "twice");
    let text = sandbox.run(["config"]).well();
    assert!(text.text().contains("\nregion-size        256.0 KiB\n"), "{}", text.text());
    assert!(text.text().contains("\nparity             0%\n"), "{}", text.text());
    sandbox
        .run(["config", "--compression-level", "99"])
        .ended(2, &["99 is out of range (expected -7 to 19)"]);
    sandbox.run(["config", "--cut", "seqcdc:avg=1"]).ended(2, &["cut specification"]);
}

/// A mode sets several settings at once. An explicit setting overrides it.
#[test]
fn mode_sets_only_settings_that_are_not_given() {
    let sandbox = Sandbox::new();
    let names = ["region_size_bytes", "container_size_bytes", "compression_level", "cut", "delta"];
    let values = |settings: &[serde_json::Value]| -> Vec<serde_json::Value> {
        let value = |name: &&str| settings.iter().find(|it| it["name"] == *name).cloned();
        names.iter().filter_map(value).map(|setting| setting["value"].clone()).collect()
    };
    let init = |repository: &str, options: &[&str]| {
        let mut command = sandbox.command(["init", "--encryption", "none", "--repo", repository]);
        run(command.args(options)).well();
        values(&sandbox.json(["config", "--repo", repository]))
    };
    let plain = init("plain", &[]);
    let (cut, on) = (plain[3].clone(), json!("on"));
    let expect = |region: u32, container: u32, level: i32, matching: &str| {
        vec![json!(region), json!(container), json!(level), cut.clone(), json!(matching)]
    };
    let [region, container] = [2 << 20, 16 << 20];
    assert_eq!(plain[4], on, "without a mode");
    assert_eq!(plain, expect(region, container, 3, "on"), "without a mode");
    assert_eq!(init("default", &["--mode", "default"]), plain, "default");
    assert_eq!(init("fast", &["--mode", "fast"]), expect(region, container, 1, "on"), "fast");
    assert_eq!(init("max", &["--mode", "max"]), expect(4 << 20, 48 << 20, 12, "on"), "max");
    let given = ["--compression-level", "5", "--delta", "off", "--mode", "random"];
    assert_eq!(init("random", &given), expect(128 << 10, container, 5, "off"), "random");
    let change = |options: &[&str]| {
        let all = [&["config", "--repo", "max"][..], options].concat();
        values(&sandbox.json(all))
    };
    assert_eq!(change(&["--parity", "5%"]), expect(4 << 20, 48 << 20, 12, "on"), "no mode given");
    let given = ["--mode", "fast", "--region-size", "256k"];
    assert_eq!(change(&given), expect(256 << 10, container, 1, "on"), "a change");
    sandbox.run(["config", "--mode", "faster"]).ended(2, &["faster", "random"]);
}

#[test]
fn objects_are_listed() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let list = sandbox.json(["debug", "--list"]);
    assert!(list.iter().any(|o| o["name"] == "config/00000000000000000000"), "the config");
    assert!(list.iter().all(|o| o["stored_bytes"].as_u64() > Some(0)), "with sizes");
    sandbox.run(["debug", "config/7"]).ended(2, &["not the name of an object", "--list"]);
    let name = "config/00000000000000000099";
    let told =
        format!("cutpoint: {name}: object not found\n  `cutpoint debug --list` lists all names");
    sandbox.run(["debug", name]).ended(2, &[&told]);
    std::fs::write(sandbox.path("repo/tickets/lagging"), "listings may lag\n").expect("a mark");
    let mark = sandbox.run(["debug", "tickets/lagging"]).well();
    assert!(
        mark.text().contains("kind        mark") && mark.text().contains("may lag"),
        "{}",
        mark.text()
    );
    sandbox.run(["debug", "tickets/lagging.1"]).ended(2, &["object not found"]);
    let shown = sandbox.json(["debug", "config/00000000000000000000"]);
    assert_eq!(
        (&shown[0]["type"], &shown[0]["kind"]),
        (&"object_content".into(), &"config".into())
    );
    assert_eq!(shown[0]["length_bytes"], 256, "its length");
    let text = sandbox.run(["debug", "config/00000000000000000000"]).well();
    assert!(text.text().contains("\nlength      256 B\n"), "{}", text.text());
    let text = sandbox.run(["debug", "--list"]).well();
    assert!(text.text().starts_with("    stored  name\n     256 B  config/"), "{}", text.text());
}
