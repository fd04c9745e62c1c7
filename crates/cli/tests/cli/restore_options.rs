//! The options of `restore`, and the place of a single restored file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Run, Sandbox, describe, run};

/// Restores `path` of the folder `source` with `arguments`.
fn restore(sandbox: &Sandbox, path: &str, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(["restore"]);
    command.arg(format!("latest:{}", sandbox.path("source").join(path).display()));
    run(command.args(arguments))
}

#[track_caller]
fn require_content(path: &Path, content: &[u8]) {
    let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(found == content, "{}: other bytes", path.display());
}

/// Returns the paths below the folder `name`, in order.
fn paths_below(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let lines = describe(&sandbox.path(name));
    let paths = lines.iter().filter_map(|line| line.split('"').nth(1));
    paths.filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

#[test]
fn single_file_goes_into_an_existing_folder_or_gets_a_new_name() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let hello = b"hello, world\n";
    restore(&sandbox, "hello", &["--to", "new"]).ended(0, &["Restored 1 file", "to new in"]);
    require_content(&sandbox.path("new"), hello);
    restore(&sandbox, "hello", &["--to", "made/below/name"]).well();
    require_content(&sandbox.path("made/below/name"), hello);
    restore(&sandbox, "hello", &["--to", "made"]).well();
    require_content(&sandbox.path("made/hello"), hello);
    restore(&sandbox, "hello", &["--to", "folder/"]).well();
    require_content(&sandbox.path("folder/hello"), hello);
    let absolute = sandbox.path("absolute");
    restore(&sandbox, "hello", &["--to", absolute.to_str().expect("UTF-8")]).well();
    require_content(&absolute, hello);
    // A symbolic link is restored in the same way.
    restore(&sandbox, "dangling", &["--to", "link"]).well();
    assert_eq!(fs::read_link(sandbox.path("link")).expect("a link"), Path::new("nowhere"));
}

#[test]
fn single_file_replaces_a_file_only_on_request() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    fs::write(sandbox.path("mine"), "mine").expect("written");
    restore(&sandbox, "hello", &["--to", "mine"]).ended(1, &["problem: mine: exists"]);
    require_content(&sandbox.path("mine"), b"mine");
    restore(&sandbox, "hello", &["--to", "mine", "--overwrite", "changed"]).well();
    require_content(&sandbox.path("mine"), b"hello, world\n");
    // A file cannot be the parent of another one.
    restore(&sandbox, "hello", &["--to", "mine/inside"]).ended(2, &["mine"]);
    let told = ["not a folder", "give either"];
    restore(&sandbox, "hello", &["below", "--to", "back"]).ended(2, &told);
}

#[test]
fn problems_of_a_kind_are_listed_twenty_times_and_then_counted() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 0..1250 {
        fs::write(sandbox.path(format!("source/{number}")), "text").expect("written");
    }
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back"]).well();
    let run = restore(&sandbox, "", &["--to", "back"]);
    let count = "problem: ... and 1,230 more of this kind: exists; not overwritten (see \
                 --overwrite) (`-v` lists all)\nRestored";
    let run = run.ended(1, &[count, "1250 problems"]);
    let listed = |text: &str| text.lines().filter(|line| line.starts_with("problem: ")).count();
    assert_eq!(listed(&run.stderr), 21, "{}", run.stderr);
    let verbose = restore(&sandbox, "", &["--to", "back", "-v"]).ended(1, &["1250 problems"]);
    assert_eq!(listed(&verbose.stderr), 1250, "with -v");
    let json = restore(&sandbox, "", &["--to", "back", "--json"]).ended(1, &[]);
    let problems = json.events().iter().filter(|event| event["type"] == "problem").count();
    assert_eq!(problems, 1250, "with --json");
    assert_eq!(json.stderr, "", "nothing else with --json");
}

#[test]
fn excluded_entries_are_left_out_and_idle_patterns_are_named() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let how = ["--exclude", "*big*", "--exclude", "deep/", "--exclude", "!big", "--to", "back"];
    let run = restore(&sandbox, "", &how).well();
    assert!(!run.stderr.contains("warning"), "each pattern matches: {}", run.stderr);
    let paths = paths_below(&sandbox, "back");
    let has = |path: &str| paths.iter().any(|found| found == path);
    assert!(has("big") && has("hello") && has("sub/hello"), "{paths:?}");
    assert!(!has("sub/copy of big") && !has("sub/deep") && !has("sub/deep/text"), "{paths:?}");
    // A pattern with a slash begins at the root of the snapshot, even if a folder is restored.
    let source = sandbox.path("source");
    let exact = format!("{}/sub", source.display());
    let how = ["--exclude", &exact, "--exclude", "/sub", "--exclude", "*.none", "--to", "other"];
    let run = restore(&sandbox, "", &how).well();
    assert!(!sandbox.path("other/sub").exists() && sandbox.path("other/hello").exists());
    for idle in ["/sub", "*.none"] {
        let line = format!("warning: {idle}: this pattern to exclude matches nothing\n");
        assert!(run.stderr.contains(&line), "{}", run.stderr);
    }
    assert!(!run.stderr.contains(&format!("{exact}:")), "{}", run.stderr);
    // Whole snapshots and single files.
    let run = sandbox.run(["restore", "latest", "--exclude", &exact, "--to", "all"]).well();
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    let all = sandbox.path("all").join(source.strip_prefix("/").expect("absolute"));
    assert!(!all.join("sub").exists() && all.join("hello").exists());
    restore(&sandbox, "hello", &["--to", "x", "--exclude", "hell*"])
        .ended(0, &["Restored 0 files"]);
    restore(&sandbox, "", &["sub/deep", "hello", "--to", "some", "--exclude", "sub"]).well();
    assert_eq!(paths_below(&sandbox, "some"), ["hello"], "a selected path can be excluded");
    restore(&sandbox, "", &["--to", "y", "--exclude", "[z-a]"])
        .ended(2, &["--exclude: pattern [z-a]", "help patterns"]);
}

#[test]
fn included_entries_come_with_their_parents_alone() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let names = |how: &[&str]| {
        fs::remove_dir_all(sandbox.path("back")).ok();
        let run = restore(&sandbox, "", &[how, &["--to", "back"]].concat()).well();
        (paths_below(&sandbox, "back"), run.stderr)
    };
    let (paths, _) = names(&["--include", "text"]);
    assert_eq!(paths, ["sub", "sub/deep", "sub/deep/text"], "no empty folder");
    let (paths, _) = names(&["--include", "deep/", "--include", "hello"]);
    assert_eq!(paths, ["hello", "sub", "sub/deep", "sub/deep/text", "sub/hello"]);
    let (paths, _) = names(&["--include", "sub/", "--include", "!text", "--exclude", "*"]);
    assert_eq!(paths, [""; 0], "an exclusion wins");
    let source = sandbox.path("source");
    let sub = format!("{}/sub/", source.display());
    let (paths, _) = names(&["--include", &sub, "--include", "!*e*", "--exclude", "copy*"]);
    assert_eq!(paths.len(), 3, "the folder, the link, and an odd name: {paths:?}");
    let (paths, said) = names(&["--include", "nothing"]);
    assert_eq!(paths, [""; 0]);
    let idle = "warning: nothing: this pattern to include matches nothing\n";
    assert!(said.contains(idle), "{said}");
    let (_, said) = names(&["--include", "deep/text"]);
    let hint = "this pattern to include matches nothing; `**/deep/text` matches in every folder\n";
    assert!(said.contains(hint), "{said}");
    // Parents get the metadata of the snapshot.
    names(&["--include", "text"]);
    let modified = |path: &str| fs::metadata(sandbox.path(path)).and_then(|stat| stat.modified());
    let (one, other) = (modified("source/sub/deep"), modified("back/sub/deep"));
    assert_eq!(one.expect("a time"), other.expect("a time"));
}

#[test]
fn owners_are_mapped_by_root_alone() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let form = "expected user:OLD=NEW or group:OLD=NEW";
    let own = fs::metadata(sandbox.path("source/hello")).expect("it is there");
    if own.uid() != 0 {
        restore(&sandbox, "", &["--to", "back", "--map-owner", "user:0=1"])
            .ended(2, &["only root can set owners"]);
        return;
    }
    restore(&sandbox, "", &["--to", "back", "--map-owner", "root=1"]).ended(2, &[form]);
    restore(&sandbox, "", &["--to", "back", "--map-owner", "user:0=nobody at all"])
        .ended(2, &["--map-owner", "this system has no user"]);
    std::os::unix::fs::chown(sandbox.path("source/empty"), Some(4321), Some(4321)).expect("given");
    sandbox.backup("source");
    let rules = ["--map-owner", "user:root=54321", "--map-owner", "group:4321=54322"];
    restore(&sandbox, "", &[&rules[..], &["--to", "back"]].concat()).well();
    let owners = |name: &str| {
        let stat = fs::symlink_metadata(sandbox.path("back").join(name)).expect("restored");
        (stat.uid(), stat.gid())
    };
    assert_eq!(owners("hello"), (54321, own.gid()), "the user by its name");
    assert_eq!(owners("empty"), (4321, 54322), "the group by its number");
    assert_eq!(owners("dangling").0, 54321, "a symbolic link");
    assert_eq!(owners("sub").0, 54321, "a folder");
}

#[test]
fn special_files_and_set_user_id_bits_are_left_out_on_request() {
    let sandbox = Sandbox::with_source();
    let sub = sandbox.path("source/sub");
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o2755)).expect("set");
    sandbox.backup("source");
    let mode = |path: &str| fs::metadata(sandbox.path(path)).expect(path).mode() & 0o7777;
    restore(&sandbox, "", &["--to", "all"]).well();
    assert_eq!((mode("all/hello"), mode("all/sub")), (0o4710, 0o2755), "by default");
    assert!(sandbox.path("all/pipe").exists(), "by default");
    let run = restore(&sandbox, "", &["--to", "back", "--no-special", "--no-setuid"]);
    run.ended(0, &["; 1 special file left out."]);
    assert_eq!((mode("back/hello"), mode("back/sub")), (0o710, 0o755));
    assert!(!sandbox.path("back/pipe").exists());
    let how = ["--to", "back", "--no-special", "--overwrite", "changed", "--json"];
    let events = restore(&sandbox, "", &how).well().events();
    assert_eq!(events.last().expect("a summary")["skipped_special_count"], 1);
}

/// Returns what a dry run lists, in order.
fn listed(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = run.text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn dry_run_lists_changes_and_makes_none() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let run = restore(&sandbox, "sub", &["--to", "back", "--dry-run"]);
    let run = run.ended(0, &["Would restore 4 files (781.", "1 folder, 1 symbolic link"]);
    assert!(!sandbox.path("back").exists(), "nothing is made");
    let lines = listed(&run);
    assert_eq!(lines.len(), 6, "the line break in a name is escaped: {lines:?}");
    assert!(lines.contains(&"+ deep/".to_owned()) && lines.contains(&"+ deep/text".to_owned()));
    restore(&sandbox, "sub", &["--to", "back"]).well();
    fs::write(sandbox.path("back/deep/text"), "mine").expect("written");
    fs::write(sandbox.path("back/own"), "own").expect("written");
    fs::remove_file(sandbox.path("back/link")).expect("removed");
    let before = describe(&sandbox.path("back"));
    let run = restore(&sandbox, "sub", &["--to", "back", "--dry-run"]);
    let run = run.ended(1, &["hello: exists", "4 problems: the affected entries would not"]);
    assert_eq!(listed(&run), ["+ link"]);
    let how = ["--to", "back", "--dry-run", "--overwrite", "changed"];
    let run = restore(&sandbox, "sub", &how).ended(0, &["Would restore 1 file (97.7 KiB)"]);
    assert_eq!(listed(&run), ["+ link", "M deep/text"]);
    let run = restore(&sandbox, "sub", &[&how[..], &["--delete"]].concat());
    let run = run.ended(0, &["; 1 to delete (3 B)"]);
    assert_eq!(listed(&run), ["+ link", "- own", "M deep/text"]);
    let events = restore(&sandbox, "sub", &[&how[..], &["--delete", "--json"]].concat()).well();
    let events = events.events();
    let change = |action: &str, path: &str, bytes: u64| {
        events.iter().any(|event| {
            event["type"] == "change"
                && event["action"] == action
                && event["path"] == path
                && event["size_bytes"] == bytes
        })
    };
    assert!(change("replace", "deep/text", 100_000), "{events:?}");
    assert!(change("delete", "own", 3) && change("create", "link", 0), "{events:?}");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["dry_run"], true);
    assert_eq!(
        (&summary["written_bytes"], &summary["replaced_count"]),
        (&100_000.into(), &1.into())
    );
    assert_eq!((&summary["deleted_count"], &summary["deleted_bytes"]), (&1.into(), &3.into()));
    assert_eq!(describe(&sandbox.path("back")), before, "nothing is changed");
}

#[test]
fn delete_removes_what_the_snapshot_lacks_and_nothing_else() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back"]).well();
    fs::create_dir_all(sandbox.path("outside/inner")).expect("made");
    fs::write(sandbox.path("outside/precious"), "precious").expect("written");
    let make = || {
        for folder in ["back/extra/inner", "back/empty"] {
            fs::remove_file(sandbox.path(folder)).ok();
            fs::create_dir_all(sandbox.path(folder)).expect("made");
        }
        for file in ["back/extra/inner/file", "back/sub/own.o", "back/empty/file"] {
            fs::write(sandbox.path(file), "own").expect("written");
        }
        let link = sandbox.path("back/sub/to outside");
        std::os::unix::fs::symlink(sandbox.path("outside"), link).expect("linked");
    };
    make();
    let how = ["--to", "back", "--overwrite", "changed", "--delete", "--yes"];
    // Excluded paths stay, with their folders.
    let run = restore(&sandbox, "", &[&how[..], &["--exclude", "*.o", "-v"]].concat());
    run.ended(0, &["deleted sub/to outside\n", "deleted extra/inner/file\n"]);
    assert!(sandbox.path("back/sub/own.o").exists() && !sandbox.path("back/extra").exists());
    let whole = |exclude: &str| {
        let (mut one, mut other) =
            (describe(&sandbox.path("source")), describe(&sandbox.path("back")));
        for lines in [&mut one, &mut other] {
            lines.retain(|line| !line.contains(exclude));
        }
        // The target itself existed before.
        assert_eq!(one[1..], other[1..], "the same as the source");
    };
    whole("own.o");
    // With --include, what does not match stays. Paths restrict it as well.
    make_extra(&sandbox);
    restore(&sandbox, "", &[&how[..], &["--include", "*.o"]].concat()).well();
    assert!(sandbox.path("back/extra").exists() && !sandbox.path("back/a.o").exists());
    make_extra(&sandbox);
    restore(&sandbox, "", &[&["sub"], &how[..]].concat()).well();
    assert!(sandbox.path("back/extra").exists() && sandbox.path("back/a.o").exists());
    assert!(!sandbox.path("back/sub/own.o").exists(), "in the selected folder");
    restore(&sandbox, "", &how).ended(0, &["; 3 deleted (6 B)"]);
    whole("\n");
    assert!(fs::read(sandbox.path("outside/precious")).is_ok_and(|bytes| bytes == b"precious"));
    assert!(sandbox.path("outside/inner").exists(), "no link was followed");
}

/// Makes entries in the target that the snapshot lacks.
fn make_extra(sandbox: &Sandbox) {
    fs::create_dir_all(sandbox.path("back/extra")).expect("made");
    for file in ["back/extra/file", "back/a.o", "back/sub/own.o"] {
        fs::write(sandbox.path(file), "own").expect("written");
    }
}

/// The repository lies in the restored folder, as it may do when a folder is saved with it inside.
#[test]
fn delete_keeps_the_repository_and_nothing_is_restored_into_it() {
    let sandbox = Sandbox::with_source();
    for folder in ["disk", "disk/inner"] {
        fs::create_dir(sandbox.path(folder)).expect("made");
    }
    fs::write(sandbox.path("disk/file"), "saved").expect("written");
    let repo = ["--repo", "disk/inner/repo", "--encryption", "none"];
    sandbox.run(["init", "--quiet"].iter().chain(&repo)).well();
    sandbox.run(["backup", "disk", "--quiet"].iter().chain(&repo)).well();
    fs::write(sandbox.path("disk/inner/more"), "new").expect("written");
    let place = format!("latest:{}", sandbox.path("disk").display());
    let how = ["--overwrite", "changed", "--delete", "--yes"];
    let whole = [&["restore", &place, "--to", "disk"][..], &how, &repo].concat();
    sandbox.run(&whole).ended(0, &["; 1 deleted (3 B)"]);
    assert!(!sandbox.path("disk/inner/more").exists());
    sandbox.run(["check", "--read-data"].iter().chain(&repo)).well();
    for inside in ["disk/inner/repo", "disk/inner/repo/new/folder"] {
        let restore = ["restore", "latest", "--to", inside];
        sandbox.run(restore.iter().chain(&repo)).ended(2, &["in the folder of the repository"]);
        assert!(!sandbox.path("disk/inner/repo/new").exists());
    }
}

/// A restore to the root folder with --delete must not remove what was never saved.
#[test]
fn delete_keeps_what_is_beside_the_sources() {
    let sandbox = Sandbox::with_source();
    for file in ["source/sub/inner", "other/file"] {
        fs::create_dir_all(sandbox.path(file).parent().expect("a folder")).expect("made");
        fs::write(sandbox.path(file), "saved").expect("written");
    }
    sandbox.run(["backup", "source/sub", "other"]).well();
    let at = |path: &str| {
        let path = sandbox.path(path);
        sandbox.path("back").join(path.strip_prefix("/").expect("absolute"))
    };
    let how = ["--to", "back", "--overwrite", "changed", "--delete", "--yes"];
    sandbox.run([&["restore", "latest"], &how[..]].concat()).well();
    let beside = [sandbox.path("back/usr"), at("repo-like"), at("source/beside"), at("../beside")];
    let inside = [at("source/sub/extra"), at("other/extra")];
    let make = || {
        for folder in beside.iter().chain(&inside) {
            fs::create_dir_all(folder).expect("made");
            fs::write(folder.join("precious"), "own").expect("written");
        }
    };
    make();
    sandbox.run([&["restore", "latest"], &how[..]].concat()).ended(0, &["; 4 deleted (6 B)"]);
    for folder in &beside {
        assert!(folder.join("precious").exists(), "{}", folder.display());
    }
    assert!(!inside.iter().any(|folder| folder.exists()), "in the sources");
    // A folder above the sources is not complete either if it is restored itself.
    make();
    let above = format!("latest:{}", sandbox.path("source").display());
    let to = at("source");
    let how = ["--to", to.to_str().expect("text"), "--overwrite", "changed", "--delete", "--yes"];
    sandbox.run([&["restore", &above], &how[..]].concat()).ended(0, &["; 2 deleted (3 B)"]);
    assert!(at("source/beside/precious").exists() && at("other/extra").exists());
}

#[test]
fn delete_asks_on_a_terminal_and_needs_yes_elsewhere() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back"]).well();
    let own = sandbox.path("back/own");
    fs::write(&own, "own").expect("written");
    let how = ["--to", "back", "--overwrite", "changed", "--delete"];
    restore(&sandbox, "", &how).ended(2, &["no terminal", "--dry-run lists", "--yes deletes"]);
    assert!(own.exists(), "without an answer");
    restore(&sandbox, "", &["--to", "back", "--delete", "--yes"])
        .ended(2, &["nothing may be overwritten", "--overwrite changed"]);
    let found = Command::new("script").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        println!("SKIPPED at a terminal: there is no program `script`");
        return;
    }
    for (answer, stays) in [("n\n", true), ("\n", true), ("y\n", false)] {
        let program = env!("CARGO_BIN_EXE_cutpoint");
        let source = sandbox.path("source");
        let line = format!("{program} restore latest:{} {}", source.display(), how.join(" "));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path(""));
        command.env("CUTPOINT_REPO", sandbox.path("repo")).env("HOME", sandbox.path("home"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(answer.as_bytes()).expect("an answer");
        let output = child.wait_with_output().expect("the program ends");
        drop(stdin);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Delete 1 entry (3 B) of back not in snapshot"), "{said}");
        assert_eq!(output.status.code(), Some(if stays { 2 } else { 0 }), "{said}");
        assert_eq!(own.exists(), stays, "answer {answer:?}: {said}");
    }
}

#[test]
fn delete_refuses_an_incomplete_snapshot() {
    let sandbox = Sandbox::with_source();
    sandbox.run(["backup", "source", "gone"]).ended(1, &["gone"]);
    restore(&sandbox, "", &["--to", "back"]).well();
    let how = ["--to", "back", "--overwrite", "changed", "--delete", "--yes"];
    restore(&sandbox, "", &how).ended(2, &["is incomplete", "would be deleted"]);
}

#[test]
fn verification_finds_what_changed_without_a_trace() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/large"), vec![7_u8; 9 << 20]).expect("written");
    sandbox.backup("source");
    let run = restore(&sandbox, "", &["--to", "back", "--verify"]);
    run.ended(0, &["read back and equal"]);
    // The same sizes and times, but other bytes.
    for (name, at) in [("large", 8 << 20), ("hello", 4), ("sparse", 2_000_000)] {
        let path = sandbox.path("back").join(name);
        let time = fs::metadata(&path).and_then(|stat| stat.modified()).expect("a time");
        let file = fs::File::options().write(true).open(&path).expect("opened");
        std::os::unix::fs::FileExt::write_all_at(&file, b"X", at).expect("written");
        file.set_modified(time).expect("a time is set");
    }
    let how = ["--to", "back", "--overwrite", "changed"];
    restore(&sandbox, "", &how).ended(0, &["Restored 0 files"]);
    let run = restore(&sandbox, "", &[&how[..], &["--verify", "--json"]].concat()).ended(1, &[]);
    let events = run.events();
    let problems = events.iter().filter(|event| event["type"] == "problem");
    let mut paths: Vec<&str> = problems.filter_map(|event| event["path"].as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["hello", "large", "sparse", "sub/hello"], "hello has two names");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["problem_count"], 4);
    assert!(summary["verified_file_count"].as_u64() >= Some(5), "{summary}");
    let text = restore(&sandbox, "", &[&how[..], &["--verify"]].concat());
    let problem = |name: &str, at: u64| {
        format!("problem: {name}: differs from the snapshot: other bytes from byte {at} on")
    };
    let problems = [problem("hello", 4), problem("large", 8 << 20), problem("sparse", 2_000_000)];
    text.ended(1, &problems.each_ref().map(String::as_str));
}

/// A mounted folder, until it is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    /// Mounts the folder `what` at `place`, if that is possible.
    fn bind(what: &Path, place: &Path) -> Option<Mounted> {
        let mut command = Command::new("mount");
        let status = command.arg("--bind").args([what, place]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then(|| Mounted(place.to_path_buf()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

#[test]
fn delete_stays_on_the_mount_of_the_target() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back"]).well();
    for folder in ["outside", "back/extra/mount"] {
        fs::create_dir_all(sandbox.path(folder)).expect("made");
    }
    fs::write(sandbox.path("outside/precious"), "precious").expect("written");
    // One mount is in the place of a folder of the snapshot, the other one is not.
    let places = ["back/sub/deep", "back/extra/mount"];
    let bind = |place| Mounted::bind(&sandbox.path("outside"), &sandbox.path(place));
    let [Some(_deep), Some(_extra)] = places.map(bind) else {
        println!("SKIPPED: folders cannot be mounted here");
        return;
    };
    let how = ["--to", "back", "--overwrite", "changed", "--delete", "--yes"];
    let run = restore(&sandbox, "", &how).ended(
        1,
        &[
            "warning: sub/deep: nothing is deleted here: another file system",
            "problem: extra/mount: not deleted: a mount point",
        ],
    );
    assert!(sandbox.path("outside/precious").exists(), "{}", run.stderr);
    assert!(sandbox.path("outside/text").exists(), "restored into the mounted folder");
}

#[test]
fn in_place_needs_permission_to_overwrite() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back", "--in-place"])
        .ended(2, &["--in-place: nothing may be overwritten", "--overwrite changed"]);
}

/// A restore that is killed goes on inside a file, also after a backup of another version.
#[test]
fn killed_restore_goes_on_inside_a_file() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    let mut bytes = SplitMix64::bytes(9, 120 << 20);
    fs::write(sandbox.path("source/image"), &bytes).expect("written");
    sandbox.backup("source");
    let mut command = sandbox.command(["restore"]);
    command.arg(format!("latest:{}", sandbox.path("source").display()));
    let mut child =
        command.args(["--to", "back", "--threads", "1"]).spawn().expect("the program starts");
    let written = |path: &Path| fs::metadata(path).map_or(0, |stat| stat.blocks() * 512);
    let partial = || {
        let mut names = fs::read_dir(sandbox.path("back")).ok()?.flatten();
        names.find(|name| name.file_name().to_string_lossy().ends_with(".partial"))
    };
    while partial().is_none_or(|partial| written(&partial.path()) < 32 << 20) {
        assert!(child.try_wait().expect("it runs").is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("it ended");
    assert!(!sandbox.path("back/image").exists(), "not complete");
    // The next snapshot has one other byte.
    bytes[70 << 20] ^= 1;
    fs::write(sandbox.path("source/image"), &bytes).expect("written");
    sandbox.backup("source");
    let how = ["--to", "back", "--overwrite", "changed", "--json"];
    let events = restore(&sandbox, "", &how).well().events();
    require_content(&sandbox.path("back/image"), &bytes);
    let summary = events.last().expect("a summary");
    assert!(summary["reused_bytes"].as_u64() >= Some(24 << 20), "{summary}");
    assert!(summary["fetched_bytes"].as_u64() <= Some(100 << 20), "{summary}");
    assert!(partial().is_none(), "nothing is left");
}

#[test]
fn progress_names_the_file_that_is_written() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let events = sandbox.json(["restore", "latest", "--to", "back"]);
    let progress = events.iter().find(|event| event["type"] == "progress").expect("progress");
    let path = progress["path"].as_str().expect("a path");
    let source = sandbox.path("source").display().to_string();
    assert!(path.contains(source.trim_start_matches('/')), "{path}");
}
