//! A shell in which every run of a page draws the same random bytes.
//!
//! The secret of a repository decides where its files are cut, and so the number of chunks. The
//! program has no switch that would make its secrets known, so the test replaces the function of the
//! C library by which the program asks for randomness.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A byte that no command prints, around the exit code of each command.
const SEPARATOR: u8 = 0x1e;

/// A shell that runs the commands of a page, without a terminal.
pub(super) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The folder of the library that fixes the randomness.
    _library: TempDir,
}

impl Shell {
    /// Starts a shell in the folder `home`. Programs in the folder `tools` come before those of the
    /// system.
    pub(super) fn start(home: &Path, tools: &Path) -> Shell {
        let library = tempfile::tempdir().expect("a temporary folder");
        let preloaded = build_fixed_random(library.path());
        let program = Path::new(env!("CARGO_BIN_EXE_cutpoint"));
        let mut folders =
            vec![tools.to_path_buf(), program.parent().expect("a folder").to_path_buf()];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(home)
            .env_clear()
            .env("PATH", std::env::join_paths(folders).expect("folders"))
            .env("HOME", home)
            .env("USER", "me")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("LD_PRELOAD", preloaded)
            .process_group(0)
            .env("RANDOM_SEED", "1")
            .env("CUTPOINT_PASSPHRASE", "correct horse battery staple")
            // The files of the pages have just been made, whereas those of a reader are older than
            // the minute that times need until they prove that a file is unchanged.
            .env("CUTPOINT_TEST_SETTLING_S", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        // Both outputs in one, in the order of a terminal.
        input.write_all(b"exec 2>&1\n").expect("bash reads");
        Shell { child, input: Some(input), output, _library: library }
    }

    /// Sets a variable of the environment.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let (output, code) = self.run(&format!("export {name}='{value}'"));
        assert_eq!((output.as_str(), code.as_str()), ("", "0"), "{name} is set");
    }

    /// Returns the value of a variable of the environment.
    pub(super) fn variable(&mut self, name: &str) -> String {
        self.run(&format!("printf %s \"${name}\"")).0
    }

    /// Runs a command. Returns its output and its exit code.
    pub(super) fn run(&mut self, command: &str) -> (String, String) {
        // No two commands draw the same bytes: the ids of their snapshots differ.
        let script = format!(
            "{{ {command}\n}} </dev/null\n\
             __code=$?; export RANDOM_SEED=$((RANDOM_SEED + 1))\n\
             printf '\\036%s\\036' \"$__code\"; (exit $__code)\n"
        );
        let input = self.input.as_mut().expect("bash runs");
        input.write_all(script.as_bytes()).expect("bash reads");
        (self.until_separator(command), self.until_separator(command))
    }

    fn until_separator(&mut self, command: &str) -> String {
        let mut bytes = Vec::new();
        self.output.read_until(SEPARATOR, &mut bytes).expect("bash prints");
        assert_eq!(bytes.pop(), Some(SEPARATOR), "`{command}` ended the shell");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The end of its input ends the shell. Programs that a page has left running end, too.
        self.input = None;
        if let Ok(id) = i32::try_from(self.child.id())
            && let Some(group) = rustix::process::Pid::from_raw(id)
            && self.child.try_wait().is_ok_and(|ended| ended.is_none())
        {
            let signal = rustix::process::Signal::TERM;
            rustix::process::kill_process_group(group, signal).ok();
        }
        self.output.read_to_end(&mut Vec::new()).ok();
        self.child.wait().ok();
    }
}

/// Builds the library that fixes the randomness of a process. The C compiler is there, since zstd
/// needs it.
fn build_fixed_random(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("fixed_random.c"), folder.join("fixed_random.so"));
    fs::write(&source, include_str!("fixed_random.c")).expect("the source is written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    let compiled = compiler.output().expect("cc starts");
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    library
}
