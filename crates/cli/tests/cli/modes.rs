//! The permissions of created files, for any umask, and repositories shared by a group.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use cutpoint_testing::skipped;

use crate::sandbox::{Run, Sandbox, make_source, run};

/// Runs with this umask.
fn with_umask(sandbox: &Sandbox, umask: &str, arguments: &[&str]) -> Run {
    let inner = sandbox.command(arguments);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("umask {umask}; exec \"$@\"")).arg("sh");
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.current_dir(sandbox.path(""));
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    run(&mut command)
}

/// Checks the mode and group of `folder` and of everything below it.
#[track_caller]
fn assert_modes(folder: &Path, folder_mode: u32, file_mode: u32) {
    let group = fs::metadata(folder).expect("it is there").gid();
    let mut open = vec![folder.to_path_buf()];
    let mut count = 0;
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).expect("it is there");
        let mode = if about.is_dir() { folder_mode } else { file_mode };
        assert_eq!(about.mode() & 0o7777, mode, "{} has {:o}", path.display(), about.mode());
        assert_eq!(about.gid(), group, "the group of {}", path.display());
        count += 1;
        if about.is_dir() {
            let entries = fs::read_dir(&path).expect("it is read");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    assert!(count > 20, "{count} entries below {}", folder.display());
}

#[test]
fn repository_and_state_are_private_for_any_umask() {
    for umask in ["022", "077", "000"] {
        let sandbox = Sandbox::new();
        make_source(&sandbox.path("source"));
        with_umask(&sandbox, umask, &["init", "--encryption", "none"]).well();
        with_umask(&sandbox, umask, &["backup", "source"]).well();
        with_umask(&sandbox, umask, &["check", "--read-data"]).well();
        with_umask(&sandbox, umask, &["ls", "latest"]).well();
        assert_modes(&sandbox.path("repo"), 0o700, 0o600);
        for folder in ["home/.local/state/cutpoint", "home/.cache/cutpoint"] {
            let mut open = vec![sandbox.path(folder)];
            while let Some(path) = open.pop() {
                let about = fs::metadata(&path).expect("it is there");
                assert_eq!(about.mode() & 0o077, 0, "{}: {:o}", path.display(), about.mode());
                if about.is_dir() {
                    let entries = fs::read_dir(&path).expect("it is read");
                    open.extend(entries.map(|entry| entry.expect("an entry").path()));
                }
            }
        }
    }
}

#[test]
fn existing_folder_passes_its_mode_on() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let repo = sandbox.path("repo");
    fs::create_dir(&repo).expect("it is made");
    fs::set_permissions(&repo, fs::Permissions::from_mode(0o755)).expect("it is set");
    // A group that new entries of the folder do not have by default. Only root can set any group.
    chown(&repo, None, Some(54_321)).ok();
    with_umask(&sandbox, "077", &["init", "--encryption", "none"])
        .ended(0, &["every user of this machine can read"]);
    with_umask(&sandbox, "077", &["backup", "source"]).well();
    assert_modes(&repo, 0o755, 0o644);
}

#[test]
fn shared_repository_belongs_to_its_group() {
    for umask in ["022", "077", "000"] {
        let sandbox = Sandbox::new();
        make_source(&sandbox.path("source"));
        with_umask(&sandbox, umask, &["init", "--encryption", "none", "--shared"]).well();
        with_umask(&sandbox, umask, &["backup", "source"]).well();
        assert_modes(&sandbox.path("repo"), 0o2770, 0o660);
    }
}

/// Two users of one group write in turn, with umasks that would hide their objects from each other.
#[test]
fn two_users_share_a_repository() {
    const GROUP: u32 = 54_321;
    let sandbox = Sandbox::new();
    let repo = sandbox.path("repo");
    // The sandbox is private to the user of the test, and the program may be in a folder that other
    // users cannot enter.
    let binary = sandbox.path("cutpoint");
    fs::copy(env!("CARGO_BIN_EXE_cutpoint"), &binary).expect("copied");
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).expect("set");
    let is_root = chown(sandbox.path(""), None, Some(GROUP)).is_ok();
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !is_root || !has_setpriv {
        skipped("two users that share a repository: this takes root and setpriv");
        return;
    }
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).expect("set");
    let as_user = |user: u32, umask: &str, arguments: &[&str]| {
        let home = sandbox.path(format!("home-{user}"));
        if !home.exists() {
            fs::create_dir(&home).expect("it is made");
            chown(&home, Some(user), Some(user)).expect("root may");
            make_source(&home.join("source"));
            assert!(
                Command::new("chown")
                    .args(["-R", &format!("{user}:{user}")])
                    .arg(home.join("source"))
                    .status()
                    .is_ok_and(|status| status.success())
            );
        }
        let inner = sandbox.command(arguments);
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user.to_string(), "--regid", &user.to_string()]);
        command.args(["--groups", &GROUP.to_string(), "sh", "-c"]);
        command.arg(format!("umask {umask}; exec \"$@\"")).arg("sh").arg(&binary);
        command.args(inner.get_args()).env_clear().current_dir(&home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &home).env("CUTPOINT_REPO", &repo).env("USER", user.to_string());
        run(&mut command)
    };
    fs::create_dir(&repo).expect("it is made");
    chown(&repo, Some(1001), Some(GROUP)).expect("root may");
    as_user(1001, "077", &["init", "--shared", "--encryption", "none"]).well();
    for (user, umask) in [(1001, "077"), (1002, "077"), (1001, "022"), (1002, "000")] {
        as_user(user, umask, &["backup", "source"]).well();
        assert_modes(&repo, 0o2770, 0o660);
    }
    as_user(1002, "077", &["check", "--read-data"]).well();
    // A user outside of the group has no access.
    as_user(1001, "077", &["forget", "--keep-last", "1"]).well();
}
