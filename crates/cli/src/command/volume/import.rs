//! `volume import`: creates a disk from an image, or from a file of a snapshot.

mod image_file;
mod snapshot_file;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cutpoint_terminal::event::{Phase, Unit};
use cutpoint_terminal::report::INTERRUPTED;
use cutpoint_terminal::units::short_size;
use cutpoint_volume::{Access, Disk, LocalFolder, OpenOptions};

use self::image_file::ImageFile;
use crate::args::{Global, Secrets, VolumeImport};
use crate::event::{Event, Summary, VolumeImported};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

/// The number of bytes that are written at a time, a multiple of every size of a block.
const WINDOW_LEN: u64 = 1 << 20;

/// A stretch of a disk.
struct Extent {
    len: u64,
    is_zero: bool,
}

/// A disk that is imported, from its beginning to its end.
trait DiskReader {
    /// The size of the disk in bytes.
    fn size(&self) -> u64;

    /// Returns the extent that begins at `offset`, which is within the disk. Offsets do not decrease
    /// from call to call.
    ///
    /// # Errors
    ///
    /// Fails if the source is damaged there, or cannot be read.
    fn extent(&mut self, offset: u64) -> Result<Extent>;

    /// Fills `buffer` from `offset` on, within the extent at `offset`.
    ///
    /// # Errors
    ///
    /// Fails if the source is damaged there, or cannot be read.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

pub(crate) fn run(args: &VolumeImport, global: &Global, report: &Report) -> Result<Exit> {
    match &args.from_snapshot {
        Some(place) => snapshot_file::open(args, place, global, report, |disk| {
            // A passphrase that was given is that of the repository as well.
            import(args, "snapshot", disk, &global.secrets, report)
        }),
        None => {
            let path = args.image.as_deref().context("IMAGE is missing")?;
            let mut image = ImageFile::open(args, path, report)?;
            let format = image.format();
            import(args, &format, &mut image, &global.secrets, report)
        }
    }
}

/// Adds a disk to the volume, or creates the volume with it, and copies the contents. Removes the disk
/// or the volume again if that fails.
fn import(
    args: &VolumeImport,
    format: &str,
    source: &mut dyn DiskReader,
    secrets: &Secrets,
    report: &Report,
) -> Result<Exit> {
    let folder = &args.folder;
    let failed = |error| super::refusal(folder, &error);
    let had_volume = folder.join("volume").exists();
    let had_folder = folder.exists();
    let new_size = |block_size: u64| {
        source.size().checked_next_multiple_of(block_size.max(1)).unwrap_or(u64::MAX)
    };
    let local = if had_volume {
        super::open_folder(folder, Access::Write)?
    } else {
        let new = super::create::NewVolume {
            folder,
            disk: &args.disk,
            size: new_size(args.block_size),
            block_size: args.block_size,
            mode: &args.mode,
            compression: &args.compression,
            verifies_duplicates: false,
        };
        super::create::volume(&new, secrets, report)?.1
    };
    let options = OpenOptions::new(Access::Write);
    let volume = Arc::new(super::open_in(folder, local.clone(), &options, secrets, report)?);
    let block_size = volume.block_size() as u64;
    if had_volume {
        volume.create_disk(&args.disk, new_size(block_size)).map_err(failed)?;
    }
    let disk = Disk::open(&volume, &args.disk).map_err(failed)?;
    let interrupt = Interrupt::listen();
    report.begin_progress();
    let copied = copy(source, &disk, folder, &interrupt, report);
    report.end_progress();
    let copied = copied.and_then(|read_bytes| {
        // The next opening reads no log.
        let stored = volume.checkpoint().and_then(|()| volume.statistics());
        Ok((read_bytes, stored.map_err(failed)?.physical_bytes))
    });
    let size_bytes = disk.size();
    let (read_bytes, physical_bytes) = copied.inspect_err(|_| {
        let removed = if had_volume {
            volume.delete(&args.disk).map_err(anyhow::Error::from)
        } else {
            remove(&local, folder, had_folder).map_err(anyhow::Error::from)
        };
        if let Err(error) = removed {
            let shown = folder.display();
            report.warn(&format!("{shown}: the incomplete disk cannot be removed: {error}"));
        }
    })?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeImport(VolumeImported {
            disk: args.disk.clone(),
            size_bytes,
            block_size_bytes: block_size,
            format: format.to_owned(),
            read_bytes,
            physical_bytes,
            elapsed_ns: report.elapsed_ns(),
        })))?;
    } else {
        report.note(&format!(
            "Imported the disk {} of {}, read {}, on disk {}; {}. `cutpoint volume serve {}` \
             offers it to clients.",
            args.disk,
            short_size(size_bytes),
            units::size(read_bytes),
            units::size(physical_bytes),
            units::duration(report.elapsed()),
            folder.display(),
        ));
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Copies the disk to the volume, and makes it durable. Returns the number of bytes that were read.
fn copy(
    source: &mut dyn DiskReader,
    disk: &Disk,
    folder: &Path,
    interrupt: &Interrupt,
    report: &Report,
) -> Result<u64> {
    let failed = |error| super::refusal(folder, &error);
    let size = source.size();
    let mut buffer = Vec::new();
    let (mut at, mut read_bytes) = (0, 0);
    while at < size {
        if interrupt.is_asked() {
            return Err(Failure::new(Exit::Interrupted, INTERRUPTED).into());
        }
        report.phase(&Phase { name: "Importing", done: at, total: Some(size), unit: Unit::Bytes });
        let extent = source.extent(at)?;
        if extent.is_zero && (extent.len >= WINDOW_LEN || at + extent.len == size) {
            let end = at + extent.len;
            at = if end == size { size } else { end - end % WINDOW_LEN };
            continue;
        }
        let end = (at + WINDOW_LEN).min(disk.size());
        buffer.clear();
        buffer.resize(usize::try_from(end - at).unwrap_or_default(), 0);
        let len = usize::try_from(size.min(end) - at).unwrap_or(usize::MAX).min(buffer.len());
        read_bytes += fill(source, at, &mut buffer[..len])?;
        // Blocks of zeros take no space.
        disk.write(at, &buffer).map_err(failed)?;
        at = end;
    }
    disk.volume().flush().map_err(failed)?;
    Ok(read_bytes)
}

/// Fills `buffer`, which is zeros, from `offset` on. Returns the number of bytes that were read.
fn fill(disk: &mut dyn DiskReader, offset: u64, buffer: &mut [u8]) -> Result<u64> {
    let (mut at, mut rest, mut read_bytes) = (offset, buffer, 0);
    while !rest.is_empty() {
        let extent = disk.extent(at)?;
        let len = usize::try_from(extent.len).unwrap_or(usize::MAX).min(rest.len());
        let (piece, behind) = rest.split_at_mut(len);
        if !extent.is_zero {
            disk.read(at, piece)?;
            read_bytes += len as u64;
        }
        at += len as u64;
        rest = behind;
    }
    Ok(read_bytes)
}

/// Removes the files of a volume that this process has created in an empty folder, and the folder
/// unless it existed before.
fn remove(local: &LocalFolder, folder: &Path, had_folder: bool) -> std::io::Result<()> {
    local.delete_all()?;
    // If the folder was moved, another one at its path with files in it stays.
    if had_folder { Ok(()) } else { fs::remove_dir(folder) }
}
