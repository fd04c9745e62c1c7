//! The command that a schedule runs, and its environment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::exit::Failure;
use crate::place;
use crate::profile::Profile;

/// The variables that decide where the program keeps its state. A service has none of them.
const VARIABLES: [&str; 3] = ["HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// The command of a schedule.
pub(super) struct Job {
    /// The name of the profile.
    pub(super) profile: String,
    /// The path of this program.
    pub(super) program: String,
    /// The folder of the profile.
    pub(super) folder: String,
    /// The environment.
    pub(super) variables: Vec<(&'static str, String)>,
    /// Set if the repository is on another machine.
    pub(super) is_remote: bool,
    /// The folders that the run writes to, as far as the profile names them.
    pub(super) written: Vec<String>,
    /// Set if the system runs the command, and not a user.
    pub(super) is_root: bool,
}

impl Job {
    /// Returns the job that runs `profile`, which is in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if a path cannot be a part of a line: it is not UTF-8, or has a line break.
    pub(super) fn new(profile: &Profile, folder: &Path) -> Result<Job> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut variables = Vec::new();
        for name in VARIABLES {
            if let Some(value) = std::env::var_os(name).map(PathBuf::from)
                && value.is_absolute()
            {
                variables.push((name, text(&value)?));
            }
        }
        let parent = |file: &Option<PathBuf>| file.as_ref()?.parent().map(Path::to_path_buf);
        let is_remote = place::address(Path::new(&profile.repository)).is_some();
        let repository = Some(PathBuf::from(&profile.repository)).filter(|_| !is_remote);
        let written = [repository, parent(&profile.report), parent(&profile.metrics)];
        Ok(Job {
            profile: profile.name.clone(),
            program: text(&program)?,
            folder: text(folder)?,
            variables,
            is_remote,
            written: written.iter().flatten().map(|path| text(path)).collect::<Result<_>>()?,
            is_root: rustix::process::geteuid().is_root(),
        })
    }
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    Ok(text.map(str::to_owned).ok_or_else(|| {
        let shown = path.display();
        Failure::failed(format!("{shown:?}: not UTF-8, or with a control character"))
            .with_remedy("units and crontabs cannot have such a path; rename it")
    })?)
}
