//! A folder of the local file system as a storage.
//!
//! An object is written to a staged file `name#1`, which listings hide, synced, linked to its name,
//! and its folder is synced. A link, unlike a rename, fails if the name exists. [`Storage::clean`]
//! removes the files of puts that were cut off.
//!
//! Files are opened by their paths. Another repository may come to the path of an open one: a process
//! moves the folder, or mounts another disk over it. Then no object is put, replaced or deleted any more.

#[cfg(unix)]
mod access;
#[cfg(windows)]
#[path = "no_access.rs"]
mod access;
mod file_system;
mod files;
mod staged;

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use walkdir::WalkDir;

use self::access::Access;
use self::files::{
    folder_of, io_error, make_folders, modified_ns, object_error, read_file, read_range,
    sync_folder,
};
use self::staged::StagedFile;
use crate::error::{Error, Kind, Result};
use crate::kind::ObjectKind;
use crate::storage::{Put, Staged, Storage, Visibility, is_staged, require_count};
use crate::system;

/// A folder of the local file system.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    access: Access,
    /// The device and the inode of the folder, on systems that tell.
    identity: Option<(u64, u64)>,
    /// Keeps the inode from being given to another folder, and the disk from being unmounted. `None` if
    /// this process may not list the folder, which no object needs.
    _folder: Option<File>,
}

impl Local {
    /// Opens the folder `root`, which must exist.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if the folder does not exist.
    pub fn open(root: &Path) -> Result<Local> {
        let failed = |error| Error::missing(root.display(), "folder not found").with_source(error);
        let folder = system::open(root).ok();
        let about = match &folder {
            Some(folder) => folder.metadata(),
            None => std::fs::metadata(root),
        };
        let about = about.map_err(failed)?;
        let access = Access::of(root).map_err(failed)?;
        let identity = system::identity(&about);
        Ok(Local { root: root.to_path_buf(), access, identity, _folder: folder })
    }

    /// Opens the folder `root`. If it does not exist, it is created for its owner only, and synced
    /// with its parents. An existing folder keeps its permissions, which all new entries receive.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the folder cannot be created.
    pub fn create(root: &Path) -> Result<Local> {
        make_folders(root)?;
        Local::open(root)
    }

    /// Opens the folder `root`, or creates it, with access for all members of its group.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the folder cannot be created, or the permissions cannot be set.
    pub fn create_shared(root: &Path) -> Result<Local> {
        make_folders(root)?;
        Access::share(root).map_err(|error| io_error(&root.display(), error))?;
        Local::open(root)
    }

    /// Returns `true` if all users of this machine can read the contents of the folder, even those
    /// who are neither its owner nor in its group.
    pub fn is_open_to_all(&self) -> bool {
        self.access.is_open_to_all()
    }

    /// Requires that the folder which was opened is still at its path.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if there is none, or another one.
    fn require_same_root(&self) -> Result<()> {
        match std::fs::metadata(&self.root) {
            Ok(about) if system::identity(&about) == self.identity => Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(io_error(&self.root.display(), error))
            }
            _ => Err(Error::new(
                Kind::Storage,
                self.root.display(),
                "no longer the folder that was opened: it was moved, removed or unmounted",
            )
            .with_remedy("run the command again when the repository is back")),
        }
    }

    /// Creates a folder below the root, with the root's permissions and group.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        self.require_same_root()?;
        let name = folder.display().to_string();
        match system::create_private_folder(folder, false) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(io_error(&name, error)),
        }
        self.access.give_folder(&name, folder)
    }

    /// Returns the path of the object `name`.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if `name` is no path below the folder, or the name of a staged
    /// file.
    fn path_of(&self, name: &str) -> Result<PathBuf> {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !name.split('/').all(is_part) || is_staged(name) {
            return Err(Error::invalid(name, "not the name of an object"));
        }
        Ok(self.root.join(name))
    }

    /// Returns the metadata of the file of an object, if it exists.
    fn metadata(&self, name: &str) -> Result<Option<Metadata>> {
        let path = self.path_of(name)?;
        match std::fs::metadata(&path) {
            Ok(about) => Ok(Some(about)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(object_error(name, &path, error)),
        }
    }

    /// Begins a file that will become the object `name`; `mark` distinguishes its name from those
    /// of other files.
    fn stage_file(&self, name: &str, mark: &str) -> Result<Box<StagedFile>> {
        let target = self.path_of(name)?;
        self.require_same_root()?;
        let mut number = 1_u64;
        loop {
            let mut staged = target.clone().into_os_string();
            staged.push(format!("{mark}#{number}"));
            let staged = PathBuf::from(staged);
            match system::private_options().write(true).create_new(true).open(&staged) {
                Ok(file) => {
                    if let Err(error) = self.access.give(name, &file) {
                        std::fs::remove_file(&staged).ok();
                        return Err(error);
                    }
                    let name = name.to_owned();
                    return Ok(Box::new(StagedFile { name, target, staged, file }));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == ErrorKind::NotFound && number == 1 => {
                    // A copy of a repository may lack its empty folders.
                    number += 1;
                    let mut folder = self.root.clone();
                    let folders = name.rsplit_once('/').map_or("", |(folders, _)| folders);
                    for part in folders.split('/') {
                        folder.push(part);
                        self.make_folder(&folder)?;
                        // Another client may have created the folder at this moment, and not have
                        // synced it yet.
                        sync_folder(folder_of(&folder))?;
                    }
                }
                Err(error) => return Err(object_error(name, &target, error)),
            }
        }
    }
}

impl Storage for Local {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let mut staged = self.stage_file(name, "").map_err(Error::of_put)?;
        staged.write(&bytes)?;
        staged.finish()
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        Ok(Some(self.stage_file(name, "").map_err(Error::of_put)?))
    }

    fn sync(&self, name: &str) -> Result<()> {
        let path = self.path_of(name)?;
        let file = File::open(&path).and_then(|file| file.sync_all());
        file.map_err(|error| object_error(name, &path, error))?;
        sync_folder(folder_of(&path))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        read_file(name, &self.path_of(name)?, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        read_range(name, &self.path_of(name)?, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        let about = self.metadata(name)?;
        Ok(about.filter(|about| !about.is_dir()).map(|about| about.len()))
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.metadata(name)?.and_then(|about| modified_ns(&about)))
    }

    // Makes one system call per file.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        self.for_each(prefix, &mut |name, len| found.push((name.to_owned(), len)))?;
        found.sort_unstable();
        Ok(found)
    }

    fn for_each(&self, prefix: &str, visit: &mut dyn FnMut(&str, u64)) -> Result<()> {
        let mut count = 0;
        let folder = self.root.join(prefix);
        for entry in WalkDir::new(&folder).min_depth(1).follow_links(true) {
            let entry = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
            let (metadata, entry) = match entry {
                Ok(entry) => entry,
                // Deleted since its folder was read, or a broken link.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(object_error(prefix, &folder, without_path(error))),
            };
            let name = entry.path().strip_prefix(&self.root).ok().and_then(Path::to_str);
            if let Some(name) = name.filter(|name| metadata.is_file() && !is_staged(name)) {
                count += 1;
                require_count(prefix, count)?;
                visit(name, metadata.len());
            }
        }
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<()> {
        let path = self.path_of(name)?;
        self.require_same_root()?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(object_error(name, &path, error))
            }
            _ => Ok(()),
        }
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        // A staging file under the object's own name would look to a cleaning client like a remnant
        // of the object's writer, which has ended.
        let mut staged = self.stage_file(name, ".anew").map_err(Error::of_put)?;
        staged.write(&bytes)?;
        let failed = |error| staged.failed(error);
        staged.file.sync_all().map_err(failed)?;
        std::fs::rename(&staged.staged, &staged.target).map_err(failed)?;
        // By now another client's file may have the name of the staging file.
        staged.staged.clear();
        sync_folder(folder_of(&staged.target))
    }

    /// Creates every folder for objects and syncs each one, so that a put has to sync only one
    /// folder.
    fn prepare(&self) -> Result<()> {
        for kind in ObjectKind::ALL {
            let folder = self.root.join(kind.folder());
            self.make_folder(&folder)?;
            if matches!(kind, ObjectKind::Data | ObjectKind::Meta) {
                for byte in 0..=0xff_u8 {
                    self.make_folder(&folder.join(format!("{byte:02x}")))?;
                }
                sync_folder(&folder)?;
            }
        }
        sync_folder(&self.root)
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        self.require_same_root()?;
        // The age is relative to the file system's own time, because the clock of this machine may
        // be wrong or differ from it.
        let now = self.stage_file(&format!("{}/now", ObjectKind::Ticket.folder()), "");
        let now_ns = now.ok().and_then(|now| modified_ns(&now.file.metadata().ok()?));
        let mut cleaning = Cleaning { root: &self.root, now_ns, is_stale, removed: 0 };
        for kind in ObjectKind::ALL {
            cleaning.folder(kind.folder(), 1)?;
        }
        Ok(cleaning.removed)
    }

    fn visibility(&self) -> Result<Visibility> {
        file_system::visibility(&self.root)
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// Returns the error of the system in `error`, whose text then has no path.
fn without_path(error: walkdir::Error) -> std::io::Error {
    // A loop of symbolic links is no error of the system.
    error.into_io_error().unwrap_or_else(|| std::io::Error::other("a loop of symbolic links"))
}

/// Returns `true` if the error is about a file that does not exist, which a listing skips.
fn is_gone(error: &walkdir::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// A search for stale staging files (`name#number`).
struct Cleaning<'a> {
    root: &'a Path,
    /// The file system's time, if it is known.
    now_ns: Option<i64>,
    is_stale: &'a dyn Fn(&str, u64) -> bool,
    removed: usize,
}

impl Cleaning<'_> {
    /// Removes stale files from `folder` and from `depth` levels of sub-folders.
    fn folder(&mut self, folder: &str, depth: usize) -> Result<()> {
        let path = self.root.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error(&path.display(), error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| io_error(&path.display(), error))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let full = format!("{folder}/{name}");
            let staged = full.rsplit_once('#').filter(|(_, number)| number.parse::<u64>().is_ok());
            let Some((object, _)) = staged else {
                if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.folder(&full, depth - 1)?;
                }
                continue;
            };
            let stamp_ns = entry.metadata().ok().and_then(|about| modified_ns(&about));
            let age_ns =
                self.now_ns.zip(stamp_ns).map_or(0, |(now, stamp)| now.saturating_sub(stamp));
            let age_s = u64::try_from(age_ns / 1_000_000_000).unwrap_or(0);
            if (self.is_stale)(object, age_s) && std::fs::remove_file(entry.path()).is_ok() {
                self.removed += 1;
            }
        }
        Ok(())
    }
}
