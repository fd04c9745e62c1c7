//! A plugin of nbdkit that serves the disks of a volume: a thin layer over [`cutpoint_volume`].
//!
//! The README has its parameters. The volume is opened once nbdkit has forked, because the lock of a
//! volume and its threads belong to one process.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cutpoint_volume::{
    Access, DISK_NAME_DEFAULT, Disk, Error, Folder, Kind, LocalFolder, OpenOptions, Volume,
};
use nbdkit::{
    ExtentHandle, ExtentType, Flags, FuaFlags, Result, Server, ThreadModel, export_name, parse_size,
};
use rustix::io::Errno;

/// The number of extents that are looked up at a time.
const EXTENTS_MAX: usize = 4096;

/// The parameters of the command line.
#[derive(Debug, Default)]
struct Parameters {
    folder: Option<PathBuf>,
    disk: Option<String>,
    memory: Option<u64>,
    limit: Option<u64>,
    reserve: Option<u64>,
    passphrase_file: Option<PathBuf>,
}

/// The volume that is served.
#[derive(Debug)]
struct Served {
    volume: Arc<Volume>,
    is_over: Arc<AtomicBool>,
    upkeep: JoinHandle<()>,
}

static PARAMETERS: Mutex<Parameters> = Mutex::new(Parameters {
    folder: None,
    disk: None,
    memory: None,
    limit: None,
    reserve: None,
    passphrase_file: None,
});
static SERVED: Mutex<Option<Served>> = Mutex::new(None);

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an error for nbdkit, which prints it and tells the client of the number.
fn failed(errno: Errno, problem: impl ToString) -> nbdkit::Error {
    nbdkit::Error::new(errno.raw_os_error(), problem.to_string())
}

fn failure(error: &Error) -> nbdkit::Error {
    let errno = match error.kind() {
        Kind::Full => Errno::NOSPC,
        Kind::Invalid => Errno::INVAL,
        Kind::ReadOnly => Errno::PERM,
        Kind::Missing => Errno::NOENT,
        _ => Errno::IO,
    };
    failed(errno, error)
}

impl Parameters {
    fn open(&self) -> Result<Volume> {
        let path = self.folder.as_deref().unwrap_or_else(|| "".as_ref());
        let folder = LocalFolder::open(path, Access::Write);
        let folder = folder.map_err(|error| {
            let problem = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no volume".to_owned(),
                std::io::ErrorKind::WouldBlock => "another process uses the volume".to_owned(),
                _ => error.to_string(),
            };
            failed(Errno::IO, format!("{}: {problem}", path.display()))
        })?;
        let folder: Arc<dyn Folder> = Arc::new(folder);
        let secret = match &self.passphrase_file {
            None => None,
            Some(path) => {
                let text = fs::read_to_string(path);
                let text = text
                    .map_err(|error| failed(Errno::IO, format!("{}: {error}", path.display())))?;
                let passphrase = text.lines().next().unwrap_or_default();
                let unlocked = Volume::unlock(&folder, passphrase.as_bytes());
                let wrong = || failed(Errno::ACCESS, "passphrase-file: wrong passphrase");
                Some(unlocked.map_err(|error| failure(&error))?.ok_or_else(wrong)?)
            }
        };
        let options = OpenOptions {
            memory: self.memory.unwrap_or(OpenOptions::MEMORY_DEFAULT),
            limit: self.limit,
            reserve: self.reserve.unwrap_or(OpenOptions::RESERVE_DEFAULT),
            secret,
            ..OpenOptions::new(Access::Write)
        };
        Volume::open(folder, &options).map_err(|error| {
            if error.kind() == Kind::Locked {
                return failed(
                    Errno::ACCESS,
                    "the volume is encrypted: passphrase-file is missing",
                );
            }
            failure(&error)
        })
    }
}

/// A connection to a disk.
#[derive(Debug)]
struct Connection(Disk);

impl Server for Connection {
    fn name() -> &'static str {
        "cutpoint"
    }

    fn longname() -> Option<&'static str> {
        Some("Virtual disks of Cutpoint")
    }

    fn description() -> Option<&'static str> {
        Some("Stores equal blocks once, and similar blocks by their differences")
    }

    fn version() -> Option<&'static str> {
        Some(env!("CARGO_PKG_VERSION"))
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("folder")
    }

    fn config_help() -> Option<&'static str> {
        Some(
            "[folder=]PATH         (required) The volume, made by `cutpoint volume create`.\n\
             disk=NAME             The disk of clients that name no export (default: main).\n\
             memory=SIZE           For changes and pages of the tables (default: 256M).\n\
             limit=SIZE            The maximum space of the volume (default: none).\n\
             reserve=SIZE          The space that writes leave free (default: 128M).\n\
             passphrase-file=PATH  The first line is the passphrase.",
        )
    }

    fn config(key: &str, value: &str) -> Result<()> {
        let mut parameters = locked(&PARAMETERS);
        match key {
            "folder" | "passphrase-file" => {
                // nbdkit leaves the current folder before the volume is opened.
                let path = std::path::absolute(value)?;
                if key == "folder" {
                    parameters.folder = Some(path);
                } else {
                    parameters.passphrase_file = Some(path);
                }
            }
            "disk" => parameters.disk = Some(value.to_owned()),
            "memory" | "limit" | "reserve" => {
                let size = parse_size(value).ok().and_then(|size| u64::try_from(size).ok());
                let wrong =
                    || failed(Errno::INVAL, format!("{key}={value}: no size, such as 256M"));
                let size = size.ok_or_else(wrong)?;
                let parameter = match key {
                    "memory" => &mut parameters.memory,
                    "limit" => &mut parameters.limit,
                    _ => &mut parameters.reserve,
                };
                *parameter = Some(size);
            }
            _ => return Err(failed(Errno::INVAL, format!("{key}: there is no such parameter"))),
        }
        Ok(())
    }

    fn config_complete() -> Result<()> {
        if locked(&PARAMETERS).folder.is_none() {
            return Err(failed(Errno::INVAL, "folder=PATH is missing: name a volume"));
        }
        Ok(())
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    fn after_fork() -> Result<()> {
        let volume = Arc::new(locked(&PARAMETERS).open()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let kept_up = (Arc::clone(&volume), Arc::clone(&is_over));
        let upkeep = std::thread::Builder::new().name("upkeep".to_owned()).spawn(move || {
            let (volume, is_over) = kept_up;
            let is_over = || is_over.load(Ordering::Relaxed);
            volume.keep_up(&is_over, &|what, error| eprintln!("nbdkit: cutpoint: {what}: {error}"));
        })?;
        *locked(&SERVED) = Some(Served { volume, is_over, upkeep });
        Ok(())
    }

    fn unload() {
        let Some(Served { volume, is_over, upkeep }) = locked(&SERVED).take() else { return };
        is_over.store(true, Ordering::Relaxed);
        // A panic was printed by the thread.
        upkeep.join().ok();
        // The next opening reads no log.
        if let Err(error) = volume.checkpoint() {
            eprintln!("nbdkit: cutpoint: cannot write a checkpoint: {error}");
        }
    }

    fn open(_is_read_only: bool) -> Result<Box<dyn Server>> {
        let name = export_name().map_err(|error| failed(Errno::INVAL, error))?;
        let default = locked(&PARAMETERS).disk.clone();
        let name = match name.as_str() {
            "" => default.as_deref().unwrap_or(DISK_NAME_DEFAULT),
            name => name,
        };
        let served = locked(&SERVED);
        let served = served.as_ref().ok_or_else(|| failed(Errno::IO, "no volume is open"))?;
        let disk = Disk::open(&served.volume, name).map_err(|error| failure(&error))?;
        Ok(Box::new(Connection(disk)))
    }

    fn get_size(&self) -> Result<i64> {
        let too_large = |_| failed(Errno::FBIG, "the disk is larger than nbdkit's limit");
        i64::try_from(self.0.size()).map_err(too_large)
    }

    fn can_write(&self) -> Result<bool> {
        Ok(!self.0.is_read_only())
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(FuaFlags::Emulate)
    }

    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_trim(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_zero(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_extents(&self) -> Result<bool> {
        Ok(true)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(offset, buffer).map_err(|error| failure(&error))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _flags: Flags) -> Result<()> {
        self.0.write(offset, bytes).map_err(|error| failure(&error))
    }

    fn flush(&self) -> Result<()> {
        self.0.volume().flush().map_err(|error| failure(&error))
    }

    fn trim(&self, count: u32, offset: u64, _flags: Flags) -> Result<()> {
        self.0.trim(offset, count.into()).map_err(|error| failure(&error))
    }

    fn zero(&self, count: u32, offset: u64, _flags: Flags) -> Result<()> {
        self.0.write_zeroes(offset, count.into()).map_err(|error| failure(&error))
    }

    fn extents(
        &self,
        count: u32,
        offset: u64,
        _flags: Flags,
        extents: &mut ExtentHandle,
    ) -> Result<()> {
        let found = self.0.extents(offset, count.into(), EXTENTS_MAX);
        let mut at = offset;
        for extent in found.map_err(|error| failure(&error))? {
            let kind = if extent.is_zero { ExtentType::HoleZero } else { ExtentType::Allocated };
            extents.add(at, extent.len, kind)?;
            at += extent.len;
        }
        Ok(())
    }
}

#[allow(missing_docs, unreachable_pub, reason = "nbdkit's function of the plugin is the macro's")]
mod entry {
    use super::Connection;

    nbdkit::plugin!(Connection {
        after_fork,
        can_extents,
        can_flush,
        can_fua,
        can_multi_conn,
        can_trim,
        can_write,
        can_zero,
        config,
        config_complete,
        extents,
        flush,
        thread_model,
        trim,
        unload,
        write_at,
        zero
    });
}
