//! `doctor`: tests a place for repositories, writing to `tmp/` only.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use cutpoint_storage::{
    Deletion, Error as StoreError, Kind, ObjectKind, Probed, Put, Storage, System, Visibility,
    probe, scratch_name,
};

use super::deletion::HIDES;
use crate::args::Global;
use crate::event::{Event, Summary, Trial};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{place, s3, session, units};

/// The number of small objects to test with.
const SMALL_COUNT: usize = 10;
/// The length of a small object, in bytes.
const SMALL_LEN: usize = 1024;
/// The length of a large object, in bytes, about that of a container.
const LARGE_LEN: usize = 16 * 1024 * 1024;
/// The length of the part of a large object that is read, in bytes, about that of a region.
const RANGE_LEN: usize = 128 * 1024;

pub(crate) fn run(global: &Global, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let location = &session::location(global)?;
    let storage = session::open_storage(global).map_err(|error| match Exit::of(&error) {
        Exit::NoRepository => Failure::failed(format!("{}: folder not found", location.display()))
            .with_remedy("create the folder first, because the test runs on its disk")
            .into(),
        _ => error,
    })?;
    let folder = place::address(location).is_none().then_some(location.as_path());
    let scratch = folder.map(ScratchFolder::new);
    let (objects, deletion) = (Vec::new(), Deletes::Unknown);
    // An address may have a password.
    let location = &place::without_password(location);
    let mut doctor = Doctor { storage: &*storage, location, report, objects, deletion };
    let result = doctor.examine(began, folder);
    doctor.clean_up();
    drop(scratch);
    result?;
    Ok(Exit::of_problems(report.problem_count()))
}

/// Removes `tmp` at the end, if it did not exist before.
struct ScratchFolder(Option<PathBuf>);

impl ScratchFolder {
    fn new(folder: &Path) -> ScratchFolder {
        let scratch = folder.join("tmp");
        ScratchFolder(Some(scratch).filter(|scratch| !scratch.exists()))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // The folder stays if another process has put something into it meanwhile.
            fs::remove_dir(folder).ok();
        }
    }
}

struct Doctor<'a> {
    storage: &'a dyn Storage,
    location: &'a Path,
    report: &'a Report,
    /// The objects put and not deleted yet.
    objects: Vec<String>,
    deletion: Deletes,
}

/// The effect of a deletion, as far as it was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deletes {
    Known(Deletion),
    /// The storage refuses to delete an object.
    Refused,
    /// The storage deletes, and does not say whether it locks objects.
    Unknown,
}

impl Doctor<'_> {
    fn examine(&mut self, began: Instant, folder: Option<&Path>) -> Result<()> {
        let (reached, listed) = timed(|| self.storage.list(ObjectKind::Config.folder()))?;
        let has_repository = !listed.is_empty();
        let state = if has_repository { "holds a repository" } else { "holds no repository" };
        self.report.note(&format!("{}: reachable, {state}", self.storage.describe()));
        self.tell("reach", &[reached], None, "the first request")?;
        let run = scratch_name(&System)?;
        self.small(&run)?;
        self.large(&run)?;
        let (elapsed, probed) = timed(|| probe(self.storage, &System))?;
        self.tell("create at once", &[elapsed], None, &probed.to_string())?;
        let may_lose = session::may_lose(self.storage)?;
        may_lose.iter().for_each(|lost| self.problem(lost));
        let free_bytes = folder.and_then(free_bytes);
        self.judge(&probed, free_bytes, has_repository, began)
    }

    /// Tests every operation of a storage on a few small objects.
    fn small(&mut self, run: &str) -> Result<()> {
        let names: Vec<String> = (0..SMALL_COUNT).map(|n| format!("{run}-small-{n}")).collect();
        let bytes = random_bytes(run, SMALL_LEN);
        let remark = format!("median of {SMALL_COUNT}, {} each", units::size(SMALL_LEN as u64));
        let mut times = Vec::new();
        for name in &names {
            self.objects.push(name.clone());
            let (elapsed, put) = timed(|| self.storage.put_new(name, bytes.clone().into()))?;
            times.push(elapsed);
            self.expect(
                put == Put::Created,
                "a put of a new object reports that the object exists already",
            );
        }
        self.tell("put", &times, None, &remark)?;
        let again = self.storage.put_new(&names[0], random_bytes("another", SMALL_LEN).into())?;
        self.expect(again == Put::Exists, "a second put of the same name is not refused");
        self.expect(
            self.storage.get(&names[0])? == bytes,
            "a second put has replaced the first object",
        );

        self.each(
            "get length",
            &names,
            &remark,
            "the length of an object is wrong",
            |storage, name| Ok(storage.head(name)? == Some(SMALL_LEN as u64)),
        )?;
        self.each(
            "get",
            &names,
            &remark,
            "a get returns other bytes than were put",
            |storage, name| Ok(storage.get(name)? == bytes),
        )?;
        let (from, to) = (SMALL_LEN / 4, SMALL_LEN / 2);
        self.each(
            "get a part",
            &names,
            &remark,
            "a get of a range returns other bytes than were put",
            |storage, name| Ok(storage.get_range(name, from as u64, to - from)? == bytes[from..to]),
        )?;
        let beyond = self.storage.get_range(&names[0], from as u64, SMALL_LEN);
        let is_refused = beyond.is_err_and(|error| error.kind() == Kind::Corrupt);
        self.expect(is_refused, "a get of a range beyond the end of an object is not refused");
        self.each(
            "list",
            &names,
            &remark,
            "a listing does not show a new object",
            |storage, name| Ok(storage.list("tmp")?.contains(&(name.to_owned(), SMALL_LEN as u64))),
        )?;
        self.remove(&names, &remark)
    }

    /// Tests the deletion of objects, and asks for its effect.
    fn remove(&mut self, names: &[String], remark: &str) -> Result<()> {
        let mut times = Vec::new();
        for name in names {
            match timed(|| self.storage.delete(name)) {
                Ok((elapsed, ())) => times.push(elapsed),
                Err(error) => {
                    self.deletion = Deletes::Refused;
                    let permission = s3::lacking(&error).map_or_else(String::new, |permission| {
                        format!(" without the permission {permission}")
                    });
                    self.problem(&format!(
                        "{error}: objects cannot be deleted{permission}. Backup, restore and check \
                         work, prune does not, and the test objects stay in tmp/"
                    ));
                    return Ok(());
                }
            }
            self.objects.retain(|object| object != name);
        }
        self.tell("delete", &times, None, remark)?;
        self.expect(self.storage.head(&names[0])?.is_none(), "a deleted object still exists");
        let left = self.storage.list("tmp")?;
        let is_left = left.iter().any(|(name, _)| names.contains(name));
        self.expect(!is_left, "a listing shows a deleted object");
        let deletion = self.storage.deletion();
        match deletion.and_then(|deletion| self.storage.locks(names).map(|_| deletion)) {
            Ok(deletion) => self.deletion = Deletes::Known(deletion),
            Err(error) => match s3::lacking(&error) {
                None => return Err(error.into()),
                Some(permission) => self.problem(&format!(
                    "{error}: whether objects are locked cannot be asked without the permission \
                     {permission}. Backup, restore and check work, prune does not"
                )),
            },
        }
        Ok(())
    }

    /// Tests an object of the size of a container.
    fn large(&mut self, run: &str) -> Result<()> {
        let name = format!("{run}-large");
        let bytes = random_bytes(run, LARGE_LEN);
        let len = Some(LARGE_LEN);
        let size = units::size(LARGE_LEN as u64);
        self.objects.push(name.clone());
        let (elapsed, _) = timed(|| self.storage.put_new(&name, bytes.clone().into()))?;
        self.tell("put 16 MiB", &[elapsed], len, &format!("{size} in one object"))?;
        let (elapsed, found) = timed(|| self.storage.get(&name))?;
        self.expect(found == bytes, "a get of a large object returns other bytes than were put");
        self.tell("get 16 MiB", &[elapsed], len, &format!("{size} in one object"))?;
        let middle = LARGE_LEN / 2 + 1;
        let (elapsed, found) = timed(|| self.storage.get_range(&name, middle as u64, RANGE_LEN))?;
        let is_same = found == bytes[middle..middle + RANGE_LEN];
        self.expect(
            is_same,
            "a get of a range of a large object returns other bytes than were put",
        );
        let remark = format!("{} of the object", units::size(RANGE_LEN as u64));
        self.tell("get 128 KiB", &[elapsed], Some(RANGE_LEN), &remark)
    }

    /// Calls `ask` for each object, and reports the time that it takes.
    fn each(
        &self,
        trial: &str,
        names: &[String],
        remark: &str,
        wrong: &str,
        ask: impl Fn(&dyn Storage, &str) -> Result<bool, StoreError>,
    ) -> Result<()> {
        let mut times = Vec::new();
        let mut is_right = true;
        for name in names {
            let (elapsed, answer) = timed(|| ask(self.storage, name))?;
            times.push(elapsed);
            is_right &= answer;
        }
        self.expect(is_right, wrong);
        self.tell(trial, &times, None, remark)
    }

    fn expect(&self, is_so: bool, wrong: &str) {
        if !is_so {
            self.problem(wrong);
        }
    }

    fn problem(&self, message: &str) {
        self.report.problem(self.location, message);
    }

    /// Reports a trial: the median of its times, and the maximum if there are several.
    fn tell(
        &self,
        trial: &str,
        times: &[Duration],
        len: Option<usize>,
        remark: &str,
    ) -> Result<()> {
        let mut times = times.to_vec();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let slowest = times.last().copied().unwrap_or_default();
        let bytes_per_second = len.map(|len| per_second(len, median));
        if self.report.is_json() {
            return self.report.event(&Event::Trial(Trial {
                trial,
                count: times.len() as u64,
                elapsed_ns: nanoseconds(median),
                slowest_ns: nanoseconds(slowest),
                bytes_per_second,
                message: remark,
            }));
        }
        let mut remark = remark.to_owned();
        if let Some(speed) = bytes_per_second {
            remark = format!("{}/s, {remark}", units::size(speed));
        }
        if times.len() > 1 {
            remark.push_str(&format!("; slowest {}", milliseconds(slowest)));
        }
        self.report.line(&format!("{trial:<15} {:>10}  {remark}", milliseconds(median)))
    }

    fn judge(
        &self,
        probed: &Probed,
        free_bytes: Option<u64>,
        has_repository: bool,
        began: Instant,
    ) -> Result<()> {
        let may_be_shared = probed.may_be_shared();
        if !may_be_shared {
            self.problem(&format!(
                "objects are not created atomically, or not listed at once: {probed}"
            ));
        }
        if self.report.is_json() {
            return self.report.event(&Event::Summary(Summary::Doctor {
                place: self.storage.describe(),
                has_repository,
                may_be_shared,
                creates_atomically: probed.creates_atomically(),
                lists_at_once: probed.lists_at_once(),
                frees_at_once: self.shows_puts_at_once(may_be_shared)?,
                deletion: match self.deletion {
                    Deletes::Known(deletion) if deletion.hides => "hides",
                    Deletes::Known(_) => "removes",
                    Deletes::Refused => "refused",
                    Deletes::Unknown => "unknown",
                },
                may_be_locked: self.known().may_be_locked,
                free_bytes,
                problem_count: self.report.problem_count(),
                elapsed_ns: nanoseconds(began.elapsed()),
            }));
        }
        self.report.line("")?;
        if let Some(free) = free_bytes {
            self.report.line(&format!("Free space: {}.", units::size(free)))?;
        }
        // A storage that cannot even do this has failed before.
        self.report.line("Backup, restore, check: yes.")?;
        let may_prune = matches!(self.deletion, Deletes::Known(_));
        self.report.line(match (may_be_shared, may_prune) {
            (true, true) => "Several machines at once, and prune while they write: yes.",
            (true, false) => "Several machines at once: yes. Prune: not with these credentials.",
            (false, true) => {
                "Several machines at once: yes. Prune: only with --exclusive, while no other client \
                 is active; so are hold and forget --undo. Interrupted runs: not resumed."
            }
            (false, false) => {
                "Several machines at once: yes. Prune: not with these credentials. Interrupted \
                 runs: not resumed."
            }
        })?;
        if may_prune {
            self.report.line(match self.shows_puts_at_once(may_be_shared)? {
                true => "A prune frees space: at once, if no backup is running.",
                false => {
                    "A prune frees space: some time after it (--settle), because listings may lag."
                }
            })?;
        }
        if self.known().hides {
            self.report.line(&format!("Deleted objects: {HIDES}."))?;
        }
        if self.known().may_be_locked {
            self.report.line("Object lock: yes. A prune leaves locked objects, and names them.")?;
        }
        Ok(())
    }

    /// Returns `true` if listings show at once what any client has put. `is_probed` is the result of
    /// the probe.
    fn shows_puts_at_once(&self, is_probed: bool) -> Result<bool> {
        Ok(match self.storage.visibility()? {
            Visibility::AtOnce | Visibility::IfProbed(_) => is_probed,
            Visibility::Later => false,
        })
    }

    /// Returns the effect of a deletion; as of a storage that removes objects if it is not known.
    fn known(&self) -> Deletion {
        match self.deletion {
            Deletes::Known(deletion) => deletion,
            Deletes::Refused | Deletes::Unknown => Deletion::default(),
        }
    }

    fn clean_up(&self) {
        for name in &self.objects {
            // A failure was reported before, and a later probe tries again.
            self.storage.delete(name).ok();
        }
    }
}

fn timed<T>(act: impl FnOnce() -> Result<T, StoreError>) -> Result<(Duration, T), StoreError> {
    let began = Instant::now();
    act().map(|done| (began.elapsed(), done))
}

/// Returns bytes that cannot be compressed on their way.
fn random_bytes(seed: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

fn per_second(len: usize, elapsed: Duration) -> u64 {
    let per_second = len as u128 * 1_000_000_000 / elapsed.as_nanos().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(duration: Duration) -> String {
    let us = duration.as_micros();
    format!("{}.{:02} ms", us / 1000, us / 10 % 100)
}
