//! An opened repository, and the creation of new ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, Result};
use cutpoint_repository::format::config::Config;
use cutpoint_repository::repo::lagging::{Pauses, is_absent, is_unlisted, open_when_listed};
use cutpoint_repository::{
    CipherSuite, InitOptions, KdfLimits, MemoryLimit, OpenOptions, Reader, Repository, Unlock, View,
};
use cutpoint_storage::{
    Error as StoreError, Kind, Local, ObjectKind, Probed, Storage, System, Weakness, probe,
};

use crate::args::{DeltaMode, Encryption, Global, Init, Mode, RestArgs, Settings};
use crate::exit::{Exit, Failure};
use crate::lag::{failure, pauses};
use crate::recovery::Kit;
use crate::remote::{self, NewPlace};
use crate::report::{Report, ReportObjects};
use crate::state::{self, Rollback, State, keys_of, xdg};
use crate::temporary::temporary_folder;
use crate::{interrupt, place, throttle, units, unlock};

/// The maximum number of attempts to type a passphrase.
const TRIES: usize = 3;

/// The names, besides the folders of objects, that the folder of a new repository may contain. An
/// `init` that was cut off leaves `tmp`, and some file systems have `lost+found`.
const OWN_NAMES: [&str; 2] = ["tmp", "lost+found"];

/// An open repository, and its state remembered on this machine.
#[derive(Debug)]
pub(crate) struct Session {
    /// The repository.
    pub(crate) repository: Arc<Repository>,
    /// The remembered state of the repository.
    pub(crate) state: State,
}

impl Session {
    /// Opens the repository that the user names.
    ///
    /// # Errors
    ///
    /// Fails with exit code 10 if there is none, and 12 if the secret does not open it.
    pub(crate) fn open(global: &Global, report: &Report) -> Result<Session> {
        Session::open_with_secret(global, report).map(|(session, _)| session)
    }

    /// Opens the repository, and also returns the secret that has opened it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Session::open`].
    pub(crate) fn open_with_secret(global: &Global, report: &Report) -> Result<(Session, Unlock)> {
        let rollback = if global.accept_rollback { Rollback::Accept } else { Rollback::Refuse };
        Session::open_by(rollback, true, global, report)
    }

    /// Opens the repository for a command that repairs settings and keyrings. Such a command itself
    /// reports the damaged ones that it does not repair.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Session::open`].
    pub(crate) fn open_to_mend(global: &Global, report: &Report) -> Result<Session> {
        let rollback = if global.accept_rollback { Rollback::Accept } else { Rollback::Refuse };
        Session::open_by(rollback, false, global, report).map(|(session, _)| session)
    }

    /// Opens the repository for a command that looks for damage. A state that is older than the
    /// remembered one is a problem, but does not stop the command.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Session::open`].
    pub(crate) fn open_to_examine(global: &Global, report: &Report) -> Result<Session> {
        let rollback = if global.accept_rollback { Rollback::Accept } else { Rollback::Tell };
        // A check itself reports the objects that do not open.
        let tells_unopened = rollback != Rollback::Tell;
        Session::open_by(rollback, tells_unopened, global, report).map(|(session, _)| session)
    }

    fn open_by(
        rollback: Rollback,
        tells_unopened: bool,
        global: &Global,
        report: &Report,
    ) -> Result<(Session, Unlock)> {
        let location = &location(global)?;
        let storage = open_storage(global)?;
        let mut pauses = pauses();
        let opened = open_repository(&storage, &mut pauses, global, report).map_err(|error| {
            // A storage that does not answer is not asked again.
            let is_storage = |cause: &StoreError| cause.kind() == Kind::Storage;
            let is_silent = error.downcast_ref().is_some_and(is_storage);
            let is_none = || Ok::<_, StoreError>(is_absent(&*storage)? && !is_unlisted(&*storage)?);
            if !is_silent && is_none().unwrap_or(false) { none_at(location).into() } else { error }
        });
        let (mut repository, unlock) = opened?;
        refuse_encryption(&repository, location, global)?;
        while let Some(name) = state::unlisted_settings(&repository)? {
            pauses.wait(name).map_err(|error| failure(error, &*storage))?;
            let options = open_options(global)?;
            repository =
                Repository::open_with(storage.clone(), interrupt::environment(), &unlock, options)?;
        }
        if tells_unopened {
            for (name, error) in repository.unopened() {
                report.unreadable(name, error);
            }
        }
        let mut state = State::check(&repository, location, rollback, report)?;
        // Saved here, so that no command can accept the state without remembering it.
        if state.is_rollback_accepted() {
            state.save(report);
        }
        Ok((Session::begin(repository, state, global), unlock))
    }

    fn begin(repository: Repository, state: State, global: &Global) -> Session {
        let cache = cache_folder().filter(|_| !global.no_cache);
        let repository = match (cache, temporary_folder()) {
            (Some(folder), _) => repository.with_cache(folder),
            (None, Some(folder)) => repository.with_temporary_folder(folder),
            (None, None) => repository,
        };
        let repository = match global.load.memory_max {
            Some(bytes_max) => repository.with_memory_limit(MemoryLimit::new(bytes_max)),
            None => repository,
        };
        Session { repository: Arc::new(repository), state }
    }

    /// Lists the repository, and compares the view with the remembered state. Objects that cannot
    /// be read are problems, but do not stop the run.
    pub(crate) fn view(&mut self, report: &Report) -> Result<View> {
        let mut view = View::list(&self.repository)?;
        let mut pauses = pauses();
        let storage = self.repository.storage();
        while let Some(name) = self.state.unlisted(&view, &**storage)? {
            pauses.wait(name).map_err(|error| failure(error, &**storage))?;
            view = view.list_again(&self.repository)?;
        }
        // A key epoch may have begun after settings and keys were read. In that case, they are read
        // again.
        if !report.has_begun_again() {
            view.require_epoch()?;
        }
        for (name, error) in view.unresolved() {
            report.unreadable(name, error);
        }
        for (name, error) in view.look_for_gone(&self.repository)? {
            report.unreadable(&name, &error);
        }
        self.state.see(&view, report)?;
        self.state.save(report);
        Ok(view)
    }

    /// Opens a reader for `view`. Index segments that cannot be read are problems.
    pub(crate) fn reader(&self, view: View, report: &Report) -> Result<Reader> {
        let reader = Reader::open(self.repository.clone(), view)?;
        for (name, error) in reader.index().unreadable() {
            report.unreadable(&name, &error);
        }
        Ok(reader)
    }

    /// Compares the newest snapshots and prunes with the remembered ones. If all of them are
    /// present, no others are read.
    pub(crate) fn look_for_heads(&mut self, report: &Report) -> Result<()> {
        if !self.state.is_present(&self.repository)? {
            self.view(report)?;
        }
        Ok(())
    }

    /// Remembers a prune record that was just made.
    pub(crate) fn remember_prune(&mut self, number: Option<u64>, report: &Report) {
        if let Some(number) = number {
            self.state.add_prune(number);
            self.state.save(report);
        }
    }
}

fn refuse_encryption(repository: &Repository, location: &Path, global: &Global) -> Result<()> {
    let suite = repository.config().suite;
    match global.secrets.encryption {
        Some(wanted) if wanted != Encryption::Auto && wanted.suite() != suite => {
            let message =
                format!("{}: the encryption of the repository is {suite}", place::shown(location));
            Err(Failure::new(Exit::WrongKey, message)
                .with_remedy("--encryption applies only to a new repository")
                .into())
        }
        _ => Ok(()),
    }
}

/// Returns the folder for data that can be recreated.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// Returns the place that the user names: a folder, or an address that begins with `s3://`.
///
/// # Errors
///
/// Fails with exit code 2 if none is named, or if its kind is unknown.
pub(crate) fn location(global: &Global) -> Result<PathBuf> {
    let given = global.repo.as_deref().filter(|given| !given.as_os_str().is_empty());
    let given = given.ok_or_else(|| {
        Failure::failed("no repository given").with_remedy("use --repo or set CUTPOINT_REPO")
    })?;
    Ok(place::resolve(given)?)
}

fn none_at(location: &Path) -> Failure {
    Failure::new(Exit::NoRepository, format!("{}: no repository found", place::shown(location)))
        .with_remedy("check --repo, or create a repository with `cutpoint init`")
}

/// Opens the place that the user names. A folder must exist.
pub(crate) fn open_storage(global: &Global) -> Result<Arc<dyn Storage>> {
    open_storage_at(&location(global)?, global)
}

/// Opens the place `location`, as [`open_storage`] does.
fn open_storage_at(location: &Path, global: &Global) -> Result<Arc<dyn Storage>> {
    if let Some(address) = place::address(location) {
        return remote::open(address, global);
    }
    // The error of the system, such as a missing permission, is better than "there is no such
    // folder".
    match fs::metadata(location) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(none_at(location).into()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(none_at(location).into());
        }
        Err(error) => {
            return Err(anyhow::Error::new(error).context(location.display().to_string()));
        }
    }
    Ok(throttle::limited(Arc::new(Local::open(location)?), &global.load))
}

/// Tests whether a storage creates objects atomically, and warns if it does not.
pub(crate) fn try_out(storage: &dyn Storage, report: &Report) -> Result<Probed> {
    let probed = probe(storage, &System)?;
    if probed.may_be_shared() {
        report.detail(|| format!("{}: {probed}", storage.describe()));
    } else {
        report.warn(&format!(
            "{}: this storage does not create objects atomically ({probed}); backup, restore and \
             check work, but interrupted runs are not resumed, and prune requires --exclusive and \
             no other active client",
            storage.describe()
        ));
    }
    for lost in may_lose(storage)? {
        report.warn(&format!("{}: {lost}", storage.describe()));
    }
    if probed.undeleted_count > 0 {
        report.note(&format!(
            "{}: {} in tmp/ could not be deleted; backup, restore and check do not need to delete, \
             and a later prune that may deletes these objects",
            storage.describe(),
            units::count(probed.undeleted_count.into(), "test object")
        ));
    }
    Ok(probed)
}

/// Returns what may be lost if the machine of a storage fails, as sentences.
pub(crate) fn may_lose(storage: &dyn Storage) -> Result<Vec<String>> {
    let weaknesses = storage.weaknesses()?.into_iter();
    let sentence = |weakness| match weakness {
        Weakness::CreatesInSteps(_) => None,
        Weakness::MayLoseNewest(reason) => Some(format!(
            "if the machine of the storage loses power, the newest objects may be lost: {reason}; \
             `cutpoint check --read-data` finds what is lost then"
        )),
    };
    Ok(weaknesses.filter_map(sentence).collect())
}

/// Returns the options for opening the repository.
fn open_options(global: &Global) -> Result<OpenOptions> {
    Ok(OpenOptions {
        kdf_limits: KdfLimits::times(global.secrets.kdf_limit),
        first_keys: keys_of(&location(global)?),
        only_key: global.secrets.key_id,
        ignores_newer: global.ignore_newer,
    })
}

/// Opens the repository. Also returns the secret that has opened it.
fn open_repository(
    storage: &Arc<dyn Storage>,
    pauses: &mut Pauses,
    global: &Global,
    report: &Report,
) -> Result<(Repository, Unlock)> {
    let options = open_options(global)?;
    let mut open = |unlock: Unlock| -> Result<(Repository, Unlock)> {
        let open = || {
            let system = interrupt::environment();
            Repository::open_with(storage.clone(), system, &unlock, options.clone())
        };
        let opened = open_when_listed(&**storage, pauses, open);
        let repository = opened.map_err(|error| failure(error, &**storage))?;
        Ok((repository, unlock))
    };
    if let Some(unlock) = unlock::given(&global.secrets, report)? {
        return open(unlock);
    }
    let is_wrong_key = |error: &anyhow::Error| {
        error.downcast_ref().is_some_and(|cause: &StoreError| cause.kind() == Kind::WrongKey)
    };
    match open(Unlock::Nothing) {
        Err(error) if is_wrong_key(&error) && unlock::can_ask() => {}
        other => return other,
    }
    let mut tries = 1;
    loop {
        match open(unlock::ask(&storage.describe())?) {
            Err(error) if is_wrong_key(&error) && tries < TRIES => {
                report.warn(&error.to_string());
                tries += 1;
            }
            other => return other,
        }
    }
}

/// The properties of a new repository.
pub(crate) struct New<'a> {
    /// The settings that differ from the defaults.
    pub(crate) settings: &'a Settings,
    /// The path of the recovery kit.
    pub(crate) recovery_kit: Option<&'a Path>,
    /// Set if all members of the folder's group are to use the repository.
    pub(crate) is_shared: bool,
    /// The options of a repository with comparable chunks ([`options_like`]).
    pub(crate) like: Option<InitOptions>,
}

/// A place without a repository, at an address or in a folder.
pub(crate) enum Vacancy {
    Remote(NewPlace),
    Folder,
}

/// Returns the place that the user names, if there is no repository there, so that one could be
/// created.
pub(crate) fn vacancy(global: &Global) -> Result<Option<Vacancy>> {
    let location = location(global)?;
    if let Some(address) = place::address(&location) {
        let place = NewPlace::open(address, global)?;
        return Ok(is_absent(&*place.storage)?.then_some(Vacancy::Remote(place)));
    }
    match open_storage(global) {
        Ok(storage) => Ok(is_absent(&*storage)?.then_some(Vacancy::Folder)),
        Err(error) if Exit::of(&error) == Exit::NoRepository => Ok(Some(Vacancy::Folder)),
        Err(error) => Err(error),
    }
}

/// Returns the options of a new repository.
///
/// # Errors
///
/// Fails if the cut specification is invalid, or if only one of the repository and that of `--like`
/// is encrypted.
fn init_options(global: &Global, new: &New<'_>) -> Result<InitOptions> {
    let (settings, encryption) = (new.settings, global.secrets.encryption);
    let base = match &new.like {
        Some(like) => like.clone(),
        None => {
            let preset = settings.mode.unwrap_or(Mode::Default).preset();
            InitOptions {
                suite: encryption.unwrap_or(Encryption::Auto).suite(),
                region_size: preset.region_size,
                container_size: preset.container_size,
                compression_level: preset.compression_level,
                ..InitOptions::default()
            }
        }
    };
    let suite = encryption.map_or(base.suite, Encryption::suite);
    if (suite == CipherSuite::None) != (base.suite == CipherSuite::None) {
        let message = "--like: either both repositories are encrypted, or neither is";
        return Err(Failure::failed(message)
            .with_remedy("use --encryption as the other repository has it")
            .into());
    }
    Ok(InitOptions {
        suite,
        cut: match &settings.cut {
            Some(cut) => canonical_cut(cut, suite != CipherSuite::None)?,
            None => base.cut,
        },
        region_size: settings.region_size.unwrap_or(base.region_size),
        container_size: settings.container_size.unwrap_or(base.container_size),
        compression_level: settings.compression_level.unwrap_or(base.compression_level),
        delta_chunks: settings.delta.map_or(base.delta_chunks, |delta| delta != DeltaMode::Off),
        parity_percent: settings.parity.unwrap_or(base.parity_percent),
        chunk_secret: base.chunk_secret,
        may_be_shared: None,
    })
}

/// Opens the repository of `--like`, and returns the options of a repository whose chunks are
/// comparable with it.
///
/// # Errors
///
/// Fails if the repository cannot be opened.
pub(crate) fn options_like(
    args: &Init,
    global: &Global,
    report: &Report,
) -> Result<Option<InitOptions>> {
    let Some(like) = &args.like else { return Ok(None) };
    let location = place::resolve(like)?;
    let repository = open_like(&location, args, global, report).map_err(|error| {
        let option = format!("--like {}", place::shown(&location));
        if Exit::of(&error) == Exit::NoRepository {
            let message = format!("{option}: no repository found");
            let failure = Failure::new(Exit::NoRepository, message);
            return failure.with_remedy("check --like, the place of an existing repository").into();
        }
        error.context(option)
    })?;
    Ok(Some(repository.comparable_options()?))
}

/// Opens the repository of `--like` at `location`.
fn open_like(location: &Path, args: &Init, global: &Global, report: &Report) -> Result<Repository> {
    let rest = RestArgs { is_source: true, ..global.rest.clone() };
    let storage = open_storage_at(location, &Global { rest, ..global.clone() })?;
    let given = unlock::in_files(
        args.like_passphrase_file.as_slice(),
        args.like_key_file.as_slice(),
        report,
    )?;
    let open =
        |unlock: &Unlock| Repository::open(storage.clone(), interrupt::environment(), unlock);
    let opened = match given.first() {
        Some(unlock) => open(unlock),
        None => match open(&Unlock::Nothing) {
            Err(error) if error.kind() == Kind::WrongKey && unlock::can_ask() => {
                open(&unlock::ask(&storage.describe())?)
            }
            opened => opened,
        },
    };
    Ok(opened?)
}

/// Creates a repository at the place of [`vacancy`] and opens it.
pub(crate) fn create(
    global: &Global,
    vacancy: Vacancy,
    new: &New<'_>,
    report: &Report,
) -> Result<Session> {
    let location = &location(global)?;
    refuse_foreign(location)?;
    let options = init_options(global, new)?;
    let suite = options.suite;
    // Created first, so that nothing has to be undone if the file exists.
    let kit = match new.recovery_kit {
        Some(path) if suite == CipherSuite::None => {
            let message =
                format!("{}: an unencrypted repository has no recovery kit", path.display());
            return Err(Failure::failed(message).into());
        }
        Some(path) => Some(Kit::create(path, report)?),
        None if suite != CipherSuite::None && report.out_is_terminal() => {
            Some(Kit::at_standard_output())
        }
        None => None,
    };
    let repository = match make(global, (location, vacancy), &options, new, report) {
        Ok(repository) => repository,
        Err(error) => {
            // The kit is still empty.
            if let Some(kit) = &kit {
                kit.discard();
            }
            return Err(error);
        }
    };
    let config = repository.config();
    report.note(&format!(
        "Created repository {} at {}: encryption {}, cut {}.",
        config.repository,
        place::shown(location),
        config.suite,
        shown_cut(config)
    ));
    match kit {
        Some(kit) => {
            let is_on_terminal = kit.is_at_standard_output();
            kit.write(&repository, "", report)?;
            if is_on_terminal && report.out_is_terminal() && unlock::can_ask() {
                unlock::wait_for_enter("Copy or print the recovery kit, then press Enter: ");
            }
        }
        None if suite == CipherSuite::None => {}
        None => report.note(
            "No recovery kit was shown, because there is no terminal; `cutpoint key add \
             --new-recovery-kit FILE` writes one.",
        ),
    }
    let state = State::new(&repository, location);
    Ok(Session::begin(repository, state, global))
}

/// Describes the way in which a repository cuts. The key of secret cut-points is no part of the
/// specification.
fn shown_cut(config: &Config) -> String {
    let spec = without_seed(&config.cut);
    if config.cut_is_keyed { format!("{spec} (secret cut-points)") } else { spec.to_owned() }
}

/// Returns a cut specification without a seed of 0, which is the default.
pub(crate) fn without_seed(spec: &str) -> &str {
    spec.strip_suffix(",seed=0").unwrap_or(spec)
}

fn make(
    global: &Global,
    (location, vacancy): (&Path, Vacancy),
    options: &InitOptions,
    new: &New<'_>,
    report: &Report,
) -> Result<Repository> {
    let secret = unlock::for_new(&global.secrets, "repository", report)?;
    // The file is never removed, because another `init` may have read it meanwhile and be the one
    // that succeeds.
    if let Some(path) = secret.made_file() {
        report.note(&format!("Created key file {}.", path.display()));
    }
    let storage = match vacancy {
        Vacancy::Remote(_) if new.is_shared => {
            let message = format!("{}: --shared applies only to folders", place::shown(location));
            return Err(Failure::failed(message).into());
        }
        Vacancy::Remote(place) => {
            let address = place::address(location).unwrap_or_default();
            place.create(address, global, |name| refuse_foreign_name(location, name))?
        }
        Vacancy::Folder => {
            let create = if new.is_shared { Local::create_shared } else { Local::create };
            let folder = create(location)?;
            if folder.is_open_to_all() && options.suite == CipherSuite::None {
                report.warn(&format!(
                    "{}: every user of this machine can read this folder, and nothing in it is \
                     encrypted (chmod 700 prevents that)",
                    location.display()
                ));
            }
            throttle::limited(Arc::new(folder), &global.load)
        }
    };
    let probed = try_out(&*storage, report)?;
    let options = InitOptions { may_be_shared: Some(probed.may_be_shared()), ..options.clone() };
    let mut repository =
        Repository::init(storage, interrupt::environment(), &secret.unlock, &options)?;
    if let Some(DeltaMode::Burst(options)) = new.settings.delta {
        let mut config = repository.config().clone();
        config.set_burst(Some(options));
        repository.set_config(config)?;
    }
    Ok(repository)
}

/// Refuses a folder with entries that do not belong to a repository, such as a home folder.
fn refuse_foreign(location: &Path) -> Result<()> {
    if place::address(location).is_some() {
        return Ok(());
    }
    let entries = match fs::read_dir(location) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(anyhow::Error::new(error).context(location.display().to_string()));
        }
    };
    for entry in entries {
        let entry = entry.with_context(|| location.display().to_string())?;
        refuse_foreign_name(location, Path::new(&entry.file_name()))?;
    }
    Ok(())
}

/// Refuses a folder with an entry of this name, unless it is one of a repository.
fn refuse_foreign_name(location: &Path, name: &Path) -> Result<()> {
    let is_own = name.to_str().is_some_and(|name| {
        OWN_NAMES.contains(&name) || ObjectKind::ALL.iter().any(|kind| kind.folder() == name)
    });
    if is_own {
        return Ok(());
    }
    let (place, name) = (location.display(), name.display());
    let message = format!("{place}: not empty and not a repository (found {name})");
    let remedy = "choose a folder that is empty or does not exist";
    Err(Failure::failed(message).with_remedy(remedy).into())
}

/// Returns a cut specification with all parameters written out. If `is_keyed`, it must be usable in
/// a repository that keeps its cut-points secret.
pub(crate) fn canonical_cut(text: &str, is_keyed: bool) -> Result<String> {
    let spec: cutpoint_chunking::Spec = text.parse().context("cut specification")?;
    // A repository keeps whole chunks in buffers of known size.
    let mut spec = spec.bounded().context("cut specification")?;
    if is_keyed {
        spec = spec.keyable().context("cut specification")?;
    }
    Ok(spec.to_string())
}
