//! Profiles: files that say what a machine saves, where, and what it does afterwards.

pub(crate) mod keys;
mod settings;
#[cfg(test)]
mod tests;

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cutpoint_backup::save::BackupOptions;
use cutpoint_repository::KdfLimits;
use cutpoint_terminal::usage;

use self::settings::Settings;
use crate::args::{Args, Command, Global};
use crate::exit::Failure;
use crate::place;
use crate::state::xdg;

pub(crate) use self::settings::nearest;

/// The ending of the names of profiles.
const EXTENSION: &str = "toml";

/// The permission bits of other users to write.
const OTHERS_WRITE: u32 = 0o022;

/// The permission bit of a folder in which users can replace only their own files.
const STICKY: u32 = 0o1000;

/// The commands that a run executes in a shell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    /// Before everything else. If one fails, nothing is saved.
    pub(crate) before: Vec<String>,
    /// After everything else, whether it succeeded or not.
    pub(crate) after: Vec<String>,
    /// At the end, if the exit code is not 0.
    pub(crate) on_failure: Vec<String>,
}

/// A profile, with the command line of each part of its run.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The name of the profile.
    pub(crate) name: String,
    /// The file of the profile, absolute.
    pub(crate) file: PathBuf,
    /// The place of the repository, for messages and files.
    pub(crate) repository: String,
    /// The paths to save.
    pub(crate) sources: Vec<PathBuf>,
    /// The arguments of `backup`, `forget`, `prune` and `check`, in this order, as far as the
    /// profile has them.
    pub(crate) parts: Vec<Args>,
    /// The commands that the run executes.
    pub(crate) hooks: Hooks,
    /// The file for the report of each run.
    pub(crate) report: Option<PathBuf>,
    /// The file for the metrics of the last run.
    pub(crate) metrics: Option<PathBuf>,
}

/// Returns the folder of profiles: the given one, or `XDG_CONFIG_HOME/cutpoint`.
///
/// # Errors
///
/// Fails if neither the folder nor the home folder is known.
pub(crate) fn folder(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given.filter(|given| !given.as_os_str().is_empty()) {
        return std::path::absolute(given).with_context(|| given.display().to_string());
    }
    xdg("XDG_CONFIG_HOME", ".config").ok_or_else(|| {
        Failure::failed("no folder of profiles: HOME is not set")
            .with_remedy("name the folder with --config, or set HOME")
            .into()
    })
}

/// Returns the names of the profiles in `folder`, sorted. A folder that does not exist has none.
///
/// # Errors
///
/// Returns the error of the system if the folder cannot be read.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let is_profile = path.extension().is_some_and(|extension| extension == EXTENSION);
        let name = path.file_stem().and_then(|stem| stem.to_str());
        names.extend(name.filter(|name| is_profile && is_name(name)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Returns `true` for the name of a profile: letters, digits, `-`, `_` and `.`. Names of units, lines
/// of cron and labels of metrics need no escapes then.
pub(crate) fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.bytes().all(is_usual) && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

/// Returns the file of the profile `name` in `folder`.
pub(crate) fn file(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{name}.{EXTENSION}"))
}

impl Profile {
    /// Reads the profile `name` in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, if other users can write to it or replace it, or if its content is
    /// invalid. The failure names the line.
    pub(crate) fn load(name: &str, folder: &Path) -> Result<Profile> {
        if !is_name(name) {
            let message = format!("{name:?} is not the name of a profile");
            return Err(Failure::failed(message)
                .with_remedy("a name has letters, digits, `-`, `_` and `.`")
                .into());
        }
        let file = file(name, folder);
        let text = match open(&file) {
            Ok(opened) => read(&file, opened)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(missing(name, &file, &names(folder)?).into());
            }
            Err(error) => return Err(anyhow::Error::new(error).context(file.display().to_string())),
        };
        let layout = Args::layout();
        let settings = Settings::parse(&text, &file, &layout)?;
        Ok(Maker { name, settings, layout, file }.profile()?)
    }
}

fn missing(name: &str, file: &Path, others: &[String]) -> Failure {
    let failure = Failure::failed(format!("no profile {name}: {} not found", file.display()));
    let similar = nearest(name, others.iter().map(String::as_str));
    failure.with_remedy(match (similar, others) {
        (Some(similar), _) => format!("use {similar} if that was meant"),
        (None, []) => "`cutpoint help profiles` shows a profile".to_owned(),
        (None, others) => format!("there are: {}", others.join(", ")),
    })
}

/// Opens a file without waiting, which the open of a pipe would do.
fn open(file: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    File::options().read(true).custom_flags(flags).open(file)
}

/// Reads a profile. It names commands to execute, so that only this user and root may be able to
/// change it.
fn read(file: &Path, mut opened: File) -> Result<String> {
    let context = || file.display().to_string();
    let about = opened.metadata().with_context(context)?;
    if !about.is_file() {
        return Err(Failure::failed(format!("{}: not a file", file.display())).into());
    }
    refuse_others(file, &about, OTHERS_WRITE)?;
    // In a folder that others can write to, they can replace the file, unless it is sticky. The
    // file may be a link.
    let resolved = fs::canonicalize(file).with_context(context)?;
    for folder in [file.parent(), resolved.parent()].into_iter().flatten() {
        let about = fs::metadata(folder).with_context(|| folder.display().to_string())?;
        let is_sticky = about.mode() & STICKY != 0;
        refuse_others(folder, &about, if is_sticky { 0 } else { OTHERS_WRITE })?;
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).with_context(context)?;
    Ok(text)
}

/// Refuses the file or folder of a profile if it belongs to another user than this one and root, or
/// has one of the permission bits `others`.
fn refuse_others(path: &Path, about: &Metadata, others: u32) -> Result<(), Failure> {
    let (shown, own, owner) = (path.display(), rustix::process::geteuid().as_raw(), about.uid());
    let reason = "a profile names commands that are executed with your rights";
    if owner != own && owner != 0 {
        let message = format!(
            "{shown}: belongs to another user (expected the user {own} or 0, found {owner})"
        );
        return Err(Failure::failed(message).with_remedy(format!("{reason}; make a copy of yours")));
    }
    let mode = about.mode() & 0o7777;
    if mode & others == 0 {
        return Ok(());
    }
    let message = format!("{shown}: other users can write to it (mode {mode:04o})");
    Err(Failure::failed(message)
        .with_remedy(format!("{reason}; `chmod go-w {shown}` prevents that others add any")))
}

/// Makes a profile of its settings.
struct Maker<'a> {
    name: &'a str,
    file: PathBuf,
    settings: Settings,
    layout: clap::Command,
}

impl Maker<'_> {
    fn profile(self) -> Result<Profile, Failure> {
        let settings = &self.settings;
        let repository = self.required("repository", "the place of the repository")?;
        self.refuse_password(&repository)?;
        self.required("sources", "the list of paths to save")?;
        let sources = settings.values("", "sources");
        if let Some(setting) = settings.get("", "sources")
            && (sources.len() != 1 && settings.get("backup", "as-path").is_some())
        {
            let message = "sources: as-path requires exactly one path";
            return Err(settings.failure(setting.line, message));
        }
        let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
        let mut parts = vec![self.backup(&sources)?];
        if settings.has_table("forget") {
            parts.push(self.forget(&sources)?);
        }
        if settings.has_table("prune") {
            parts.push(self.part("prune", settings.words("prune", &self.layout))?);
        }
        if let Some(portion) = settings.values("", "check").first() {
            let words = match portion.as_str() {
                "" => Vec::new(),
                portion => vec![format!("--read-data={portion}")],
            };
            parts.push(self.part("check", words)?);
        }
        if let (Some(report), Some(metrics)) =
            (settings.get("", "report"), settings.get("", "metrics"))
            && report.values == metrics.values
        {
            let message = "metrics: the file is that of report";
            return Err(settings.failure(metrics.line, message).with_remedy("name two files"));
        }
        let commands = |name| settings.values("hooks", name).to_vec();
        let path = |name| settings.values("", name).first().map(PathBuf::from);
        Ok(Profile {
            name: self.name.to_owned(),
            repository: place::shown(Path::new(&repository)),
            sources,
            parts,
            hooks: Hooks {
                before: commands("before"),
                after: commands("after"),
                on_failure: commands("on-failure"),
            },
            report: path("report"),
            metrics: path("metrics"),
            file: self.file,
        })
    }

    fn required(&self, name: &str, meaning: &str) -> Result<String, Failure> {
        self.settings.values("", name).first().cloned().ok_or_else(|| {
            let message = format!("{}: {name}: missing or empty", self.file.display());
            Failure::failed(message).with_remedy(format!("add the key {name}, {meaning}"))
        })
    }

    /// Refuses an address with a password, because profiles are shown and copied.
    fn refuse_password(&self, repository: &str) -> Result<(), Failure> {
        let location = Path::new(repository);
        let setting = self.settings.get("", "repository");
        let Some(setting) = setting.filter(|_| place::has_password(location)) else {
            return Ok(());
        };
        let message = format!("repository: {} has a password", place::shown(location));
        Err(self.settings.failure(setting.line, &message).with_remedy(
            "a profile holds no secret, so that it can be shown and copied: set \
             CUTPOINT_REST_USER and CUTPOINT_REST_PASSWORD, for a service by EnvironmentFile=",
        ))
    }

    fn backup(&self, sources: &[PathBuf]) -> Result<Args, Failure> {
        let mut words = self.settings.words("backup", &self.layout);
        words.push("--".to_owned());
        words.extend(sources.iter().map(|source| source.display().to_string()));
        self.part("backup", words)
    }

    /// Returns the arguments of `forget`. Unless the profile says otherwise, the rules apply to the
    /// snapshots of this profile alone: those of its host with exactly its paths, and with its tags.
    fn forget(&self, sources: &[PathBuf]) -> Result<Args, Failure> {
        let settings = &self.settings;
        let mut words = settings.words("forget", &self.layout);
        if !words.iter().any(|word| word.starts_with("--keep-")) {
            let message = format!("{}: [forget] has no rule", self.file.display());
            return Err(Failure::failed(message).with_remedy(
                "add a rule such as keep-daily = 7, or remove the table to keep all snapshots",
            ));
        }
        let is_own =
            ["host", "path", "tag"].iter().all(|name| settings.get("forget", name).is_none());
        if is_own {
            let host = settings.values("backup", "host").first().cloned();
            words.push(format!("--host={}", host.unwrap_or_else(|| BackupOptions::default().host)));
            match settings.values("backup", "as-path") {
                [] => words
                    .extend(sources.iter().map(|source| format!("--path={}", source.display()))),
                path => words.extend(path.iter().map(|path| format!("--path={path}"))),
            }
            let tags = settings.values("backup", "tag");
            words.extend(tags.iter().map(|tag| format!("--tag={tag}")));
        }
        let mut args = self.part("forget", words)?;
        if let Command::Forget(forget) = &mut args.command {
            forget.selection.has_all_paths = is_own;
            forget.follows_backup = true;
        }
        Ok(args)
    }

    /// Parses the arguments of a command, with the common options of the profile.
    fn part(&self, command: &str, words: Vec<String>) -> Result<Args, Failure> {
        let mut all = vec!["cutpoint".to_owned()];
        all.extend(self.settings.words("", &self.layout));
        all.push(command.to_owned());
        all.extend(words);
        Args::of_words(&all).map_err(|error| self.refused(command, &error))
    }

    /// Returns the failure for a value that the option of the same name refuses.
    fn refused(&self, command: &str, error: &clap::Error) -> Failure {
        let failure = usage::failure(error, command);
        let argument = usage::argument(error).unwrap_or_default();
        let name = argument.trim_start_matches('-');
        let keys = [(command, name), ("", name), ("", "check"), ("", "repository")];
        let is_meant = |(table, name): &(&str, &str)| match *name {
            "check" => argument == "--read-data",
            "repository" => argument == "--repo",
            _ => self.settings.get(table, name).is_some(),
        };
        let setting = keys
            .into_iter()
            .find(is_meant)
            .and_then(|(table, name)| self.settings.get(table, name));
        let message = failure.to_string().replace("--read-data", "check").replacen("--", "", 1);
        let help = "`cutpoint help profiles` and the page Profiles of the book explain the keys";
        match setting {
            Some(setting) => self.settings.failure(setting.line, &message),
            None => Failure::failed(format!("{}: {message}", self.file.display())),
        }
        .with_remedy(help)
    }
}

/// Applies the common options of this process to the arguments of a part, for example `--quiet`.
///
/// # Errors
///
/// Fails if the command line has options that the profile decides.
pub(crate) fn apply(global: &Global, parts: &mut [Args], is_dry_run: bool) -> Result<(), Failure> {
    // CUTPOINT_REPO may be set for other commands. It cannot be told from an equal --repo, which
    // would change nothing.
    let variable = std::env::var_os("CUTPOINT_REPO").map(PathBuf::from);
    let repository = global.repo.as_ref().filter(|given| Some(*given) != variable.as_ref());
    let is_of_line = |given: &Option<String>, variable: &str| {
        given.is_some() && *given != std::env::var(variable).ok()
    };
    let secrets = &global.secrets;
    let given = [
        ("--repo", repository.is_some()),
        ("--key-file", secrets.key_file.is_some()),
        ("--passphrase-file", secrets.passphrase_file.is_some()),
        ("--passphrase-command", secrets.passphrase_command.is_some()),
        ("--key-id", secrets.key_id.is_some()),
        ("--encryption", secrets.encryption.is_some()),
        ("--kdf-limit", secrets.kdf_limit != KdfLimits::TIMES),
        ("--s3-endpoint", global.s3.s3_endpoint.is_some()),
        ("--s3-region", global.s3.s3_region.is_some()),
        ("--ssh-command", is_of_line(&global.sftp.ssh_command, "CUTPOINT_SSH_COMMAND")),
        ("--rclone-command", is_of_line(&global.rest.rclone_command, "CUTPOINT_RCLONE_COMMAND")),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::failed(format!("{option}: cannot be used with a profile"))
            .with_remedy("the profile names the repository, the way to it and the secret"));
    }
    for part in parts {
        let own = &mut part.global;
        (own.output, own.utc) = (global.output, global.utc);
        own.no_cache |= global.no_cache;
        own.accept_rollback |= global.accept_rollback;
        own.ignore_newer |= global.ignore_newer;
        let (load, given) = (&mut own.load, &global.load);
        load.limit_upload = given.limit_upload.or(load.limit_upload);
        load.limit_download = given.limit_download.or(load.limit_download);
        load.memory_max = given.memory_max.or(load.memory_max);
        load.low_priority |= given.low_priority;
        match &mut part.command {
            Command::Backup(backup) => backup.dry_run = is_dry_run,
            Command::Forget(forget) => forget.dry_run = is_dry_run,
            Command::Prune(prune) => {
                prune.dry_run = is_dry_run;
                // A dry run deletes nothing, so that there is nothing to wait for.
                prune.clearing.wait &= !is_dry_run;
            }
            _ => {}
        }
    }
    Ok(())
}
