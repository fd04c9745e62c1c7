//! The files that packages install.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::{Compression, GzBuilder};

use super::build;
use super::notices;
use super::release::{Release, Target, read};
use crate::{output, root};

/// The bits of a mode for a regular file, and for a folder.
pub(super) const REGULAR: u32 = 0o100_000;
pub(super) const FOLDER: u32 = 0o040_000;

/// A file or a folder of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The path from the root of the system, without the first slash.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    /// The type and the permissions, as in `stat`.
    pub(super) mode: u32,
}

impl Part {
    /// Creates a file that everyone can read.
    pub(super) fn new(path: impl Into<String>, bytes: Vec<u8>) -> Part {
        Part { path: path.into(), bytes, mode: REGULAR | 0o644 }
    }

    /// Creates a file that everyone can execute.
    pub(super) fn program(path: impl Into<String>, bytes: Vec<u8>) -> Part {
        Part { path: path.into(), bytes, mode: REGULAR | 0o755 }
    }

    /// Creates a folder with these permissions.
    pub(super) fn folder(path: impl Into<String>, permissions: u32) -> Part {
        Part { path: path.into(), bytes: Vec::new(), mode: FOLDER | permissions }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.mode & FOLDER != 0
    }
}

/// What is installed on every system.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) program: Vec<u8>,
    /// The scripts for shells, by the name of the shell.
    pub(super) completions: BTreeMap<&'static str, Vec<u8>>,
    /// The manual pages, by name of the file.
    pub(super) manual: BTreeMap<String, Vec<u8>>,
    pub(super) unit: Vec<u8>,
    pub(super) changelog: Vec<u8>,
    /// The licences of the program, by name of the file.
    pub(super) licences: BTreeMap<&'static str, Vec<u8>>,
    /// The licences of the libraries that are part of the program.
    pub(super) notices: Vec<u8>,
}

impl Parts {
    /// Makes all parts for `target`. Manual pages and completions come from a program that runs on this
    /// machine.
    pub(super) fn make(release: &Release, target: &Target) -> Result<Parts, String> {
        let native = Target::native()?;
        let program = build::program(release, target)?;
        if native.triple != target.triple {
            build::program(release, native)?;
        }
        let runnable = build::path(native);
        let of_root = |name: &str| read(&Path::new(root()).join(name));
        let mut completions = BTreeMap::new();
        for shell in ["bash", "fish", "nu", "zsh"] {
            completions.insert(shell, output(program_command(&runnable, &["completions", shell]))?);
        }
        Ok(Parts {
            program,
            completions,
            manual: manual(release, &runnable)?,
            unit: of_root("packaging/cutpoint-volume@.service")?,
            changelog: of_root("CHANGELOG.md")?,
            licences: BTreeMap::from([
                ("LICENSE-APACHE", of_root("LICENSE-APACHE")?),
                ("LICENSE-MIT", of_root("LICENSE-MIT")?),
            ]),
            notices: notices::of(target)?,
        })
    }

    /// Returns the files that a package of a Linux distribution installs, except those of
    /// documentation, sorted by path. `zsh` is the folder of the completions of zsh.
    pub(super) fn of_distribution(&self, zsh: &str) -> Vec<Part> {
        let script = |shell| self.completions.get(shell).cloned().unwrap_or_default();
        let mut parts = vec![
            Part::program("usr/bin/cutpoint", self.program.clone()),
            Part::new("usr/lib/systemd/system/cutpoint-volume@.service", self.unit.clone()),
            Part::new("usr/share/bash-completion/completions/cutpoint", script("bash")),
            Part::new("usr/share/fish/vendor_completions.d/cutpoint.fish", script("fish")),
            Part::new(format!("{zsh}/_cutpoint"), script("zsh")),
        ];
        for (name, page) in &self.manual {
            parts.push(Part::new(format!("usr/share/man/man1/{name}.gz"), gzip(page)));
        }
        parts
    }
}

/// Returns a command of the program that sees nothing of the settings of this machine.
fn program_command(program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("HOME", "/nonexistent").env("TZ", "UTC");
    command
}

fn manual(release: &Release, program: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let folder = release.folder.join("man");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    let path = folder.to_str().ok_or("the target folder is not UTF-8")?;
    output(program_command(program, &["man", path]))?;
    let mut pages = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.insert(name, read(&path)?);
    }
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(pages)
}

/// Compresses `bytes`, without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    // Writes to memory do not fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}
