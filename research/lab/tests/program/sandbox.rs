//! A folder for one test, and the program in it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::schema;

/// A separate folder for one test. The program gets nothing of the user's environment.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// The result of a run of the program.
pub(crate) struct Run {
    code: Option<i32>,
    stdout: Vec<u8>,
    pub(crate) stderr: String,
    arguments: String,
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        Sandbox { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutpoint-lab"));
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Run {
        let mut command = self.command(arguments);
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        Run {
            code: status.code(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            arguments: format!("{:?}", command.get_args().collect::<Vec<_>>()),
        }
    }

    /// Runs with `--json`. Every line must be valid.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        self.run([arguments, &["--json"]].concat()).events()
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
        let valid = |line: &str| {
            let event: Value = serde_json::from_str(line).expect("a line is JSON");
            schema::validate(&event).unwrap_or_else(|error| panic!("{line}: {error}"));
            event
        };
        self.text().lines().map(valid).collect()
    }
}

/// Makes a small folder with files that are equal, empty, sparse and of text.
pub(crate) fn make_source(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("the file is written");
    };
    fs::create_dir_all(folder.join("sub/deep")).expect("folders are made");
    write("hello", b"hello, world\n");
    write("empty", b"");
    write("big", &SplitMix64::bytes(1, 700_000));
    write("sub/copy of big", &SplitMix64::bytes(1, 700_000));
    write("sub/deep/text", &cutpoint_testing::input::text(100_000));
    fs::hard_link(folder.join("hello"), folder.join("sub/hello")).expect("a link is made");
    std::os::unix::fs::symlink("../hello", folder.join("sub/link")).expect("a link is made");
    let sparse = fs::File::create(folder.join("sparse")).expect("a file is made");
    sparse.set_len(3_000_000).expect("the file grows");
}
