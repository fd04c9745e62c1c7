//! A folder for one test, and the program in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cutpoint_testing::SplitMix64;
pub(crate) use cutpoint_testing::tree::describe;
use serde_json::Value;

use crate::schema;

/// The user without privileges as whom tests of root run the program.
pub(crate) const NOBODY: u32 = 65_534;

/// A separate folder for one test. The program gets nothing of the user's environment.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// The result of a run of the program.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    arguments: String,
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        Sandbox { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Creates a sandbox with a repository `repo` that is not encrypted.
    pub(crate) fn with_repository() -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.run(["init", "--encryption", "none"]).well();
        sandbox
    }

    /// Creates a sandbox with such a repository and a small folder `source`.
    pub(crate) fn with_source() -> Sandbox {
        let sandbox = Sandbox::with_repository();
        make_source(&sandbox.path("source"));
        sandbox
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        // Resolved, as in snapshots.
        self.folder.path().canonicalize().expect("the folder is there").join(name)
    }

    pub(crate) fn command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutpoint"));
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("USER", "tester")
            .env("TZ", "UTC")
            .env("CUTPOINT_REPO", self.path("repo"))
            // Otherwise, files that a test has just written would take a minute to settle.
            .env("CUTPOINT_TEST_SETTLING_S", "2")
            // Otherwise, the first run over a network would wait for minutes.
            .env("CUTPOINT_TEST_LAG_S", "0")
            .stdin(Stdio::null());
        command
    }

    /// Gives the files to a user without privileges, if the test runs as root. Returns `true` if
    /// that user can run the program.
    pub(crate) fn give_away(&self) -> bool {
        if !is_root() {
            return true;
        }
        let owner = format!("{NOBODY}:{NOBODY}");
        let given = Command::new("chown").args(["-R", &owner]).arg(self.path("")).status();
        assert!(given.is_ok_and(|status| status.success()), "the files are given away");
        let program =
            Command::new(env!("CARGO_BIN_EXE_cutpoint")).arg("--version").uid(NOBODY).output();
        if program.is_err() {
            eprintln!("skipped: the program lies where only root can run it");
        }
        program.is_ok()
    }

    /// Returns a command of a user other than root, who owns the files.
    pub(crate) fn command_of_user<I>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = self.command(arguments);
        if is_root() {
            // Root may do everything, so another user has to try.
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub(crate) fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Run {
        run(&mut self.command(arguments))
    }

    /// Runs with `--json`. Every line must be valid.
    pub(crate) fn json<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Vec<Value> {
        let mut command = self.command(arguments);
        command.arg("--json");
        run(&mut command).events()
    }

    /// Makes a backup of `source`. Returns the id of the snapshot.
    pub(crate) fn backup(&self, source: &str) -> String {
        self.backup_of(&[source])
    }

    /// Makes a backup with these arguments. Returns the id of the snapshot.
    pub(crate) fn backup_of(&self, arguments: &[&str]) -> String {
        let events = self.json(["backup"].iter().chain(arguments));
        let summary = events.last().expect("a summary");
        summary["snapshot"].as_str().unwrap_or_else(|| panic!("{summary}")).to_owned()
    }
}

/// Returns `true` if the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a prepared command.
pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    Run {
        code: status.code(),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        arguments: format!("{:?}", command.get_args().collect::<Vec<_>>()),
    }
}

/// Runs a prepared command with `input` at its standard input.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    feeder.join().expect("the feeder ends").ok();
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        arguments: format!("{:?}", command.get_args().collect::<Vec<_>>()),
    }
}

impl Run {
    /// Checks that the run ended with `code` and printed each of `texts` to standard error.
    #[track_caller]
    pub(crate) fn ended(self, code: i32, texts: &[&str]) -> Run {
        let Run { arguments, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "{arguments} said: {stderr}");
        for text in texts {
            assert!(stderr.contains(text), "{arguments} should say {text:?}, but said: {stderr}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn well(self) -> Run {
        self.ended(0, &[])
    }

    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    /// Returns the lines of standard output, each of which must be an event of the schema.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| {
                let event: Value = serde_json::from_str(line).expect("a line is JSON");
                schema::validate(&event).unwrap_or_else(|error| panic!("{line}: {error}"));
                event
            })
            .collect()
    }
}

/// Makes a small folder with one entry of each kind that any user can create.
pub(crate) fn make_source(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("the file is written");
    };
    fs::create_dir_all(folder.join("sub/deep")).expect("folders are made");
    fs::create_dir(folder.join("empty folder")).expect("a folder is made");
    write("hello", b"hello, world\n");
    write("empty", b"");
    write("big", &SplitMix64::bytes(1, 700_000));
    write("sub/copy of big", &SplitMix64::bytes(1, 700_000));
    write("sub/deep/text", &cutpoint_testing::input::text(100_000));
    write("sub/\u{fc} \n", b"an odd name");
    let odd = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"not \xff UTF-8");
    fs::write(folder.join(odd), b"odder").expect("the file is written");
    fs::hard_link(folder.join("hello"), folder.join("sub/hello")).expect("a link is made");
    symlink("../hello", folder.join("sub/link")).expect("a link is made");
    symlink("nowhere", folder.join("dangling")).expect("a link is made");
    fs::set_permissions(folder.join("hello"), fs::Permissions::from_mode(0o4710))
        .expect("permissions are set");
    let sparse = fs::File::create(folder.join("sparse")).expect("a file is made");
    sparse.set_len(3_000_000).expect("the file grows");
    // Sockets and pipes are saved, too. Creating a pipe needs no privileges.
    assert!(
        Command::new("mkfifo").arg(folder.join("pipe")).status().is_ok_and(|s| s.success()),
        "a pipe is made"
    );
}
