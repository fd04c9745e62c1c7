//! Containers: their directories, and on request every byte.

use std::sync::Mutex;
use std::sync::PoisonError;

use zstd::bulk::Decompressor;

use super::{Check, CheckOptions, FindingKind};
use crate::error::{Error, Kind, Result};
use crate::format::directory::{Directory, Form};
use crate::format::segment::ContainerRecord;
use crate::index::load_directory;
use crate::name::ObjectName;
use crate::seal::{Opener, PartKind, Trailer, object_is_intact};
use crate::writer::decode_region;

/// Checks all `containers`, several at once.
pub(super) fn check(
    check: &Check<'_>,
    containers: &[ContainerRecord],
    options: &CheckOptions,
) -> Result<()> {
    if options.read_data {
        let bytes = containers.iter().map(|record| u64::from(record.stored_len)).sum();
        check.monitor.expected(containers.len() as u64, bytes);
    }
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        threads => threads,
    };
    let queue = Mutex::new(containers.iter());
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(containers.len()) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(record) = next else { return };
                    let result = check
                        .stop_if_cancelled()
                        .and_then(|()| check_container(check, record, options.read_data));
                    if let Err(error) = result {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        return;
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn check_container(check: &Check<'_>, record: &ContainerRecord, read_data: bool) -> Result<()> {
    let name = ObjectName::Container(record.class, record.name);
    let result = if read_data {
        let result = read_container(check, record, name);
        let len = u64::from(record.stored_len);
        check.count(|report| report.read_bytes += len);
        check.monitor.progress(1, len);
        result
    } else {
        load_directory(check.repository, record).map(drop)
    };
    match result {
        Ok(()) => Ok(()),
        // The storage itself failed: nothing is known about the container.
        Err(error) if error.kind() == Kind::Media => Err(error),
        Err(error) => {
            check.failed(name, &error);
            Ok(())
        }
    }
}

/// Reads a whole container; names each region and chunk that is not what it was.
fn read_container(check: &Check<'_>, record: &ContainerRecord, name: ObjectName) -> Result<()> {
    let keys = check.repository.keys();
    let bytes = check.repository.media().get(&name.to_string())?;
    let is_intact = object_is_intact(&bytes);
    let opener = Opener::new(keys, name, &bytes)?;
    let trailer = Trailer::decode(&name, &bytes, bytes.len() as u64);
    if let Ok(trailer) = trailer
        && (trailer.offset != u64::from(record.directory_offset)
            || trailer.length != record.directory_len)
    {
        check.finding(
            FindingKind::Corrupt,
            name,
            "its trailer names another directory than the index",
        );
    }
    let start = record.directory_offset as usize;
    let Some(directory) = bytes.get(start..start + record.directory_len as usize) else {
        return Err(Error::corrupt(name, "ends before its directory"));
    };
    let mut directory = directory.to_vec();
    opener.open(PartKind::Directory, &mut directory)?;
    let directory = Directory::decode(&directory, u64::from(record.directory_offset))?;
    let mut decompressor = Decompressor::new().map_err(|error| Error::invalid("zstd", error))?;
    let mut was_named = false;
    for (number, region) in (0_u16..).zip(&directory.regions) {
        let start = region.offset as usize;
        let decoded = bytes
            .get(start..start + region.stored_len as usize)
            .ok_or_else(|| Error::corrupt(name, "ends inside a region"))
            .map(<[u8]>::to_vec)
            .and_then(|mut part| {
                opener.open(PartKind::Region(u32::from(number)), &mut part)?;
                decode_region(&mut decompressor, region.codec, part, region.raw_len)
            });
        let chunks = directory.chunks.iter().filter(|chunk| chunk.region == number);
        match decoded {
            Ok(decoded) => {
                for chunk in chunks.filter(|chunk| chunk.form != Form::Composite) {
                    let start = chunk.offset as usize;
                    let payload = decoded.get(start..start + chunk.payload_len as usize);
                    let found = payload.map(|payload| keys.fingerprint(record.class, payload));
                    if found != Some(chunk.fingerprint) {
                        was_named = true;
                        check.bad(record.class, chunk.fingerprint);
                        let message = format!(
                            "region {number}: chunk at byte {start} is not {}",
                            chunk.fingerprint
                        );
                        check.finding(FindingKind::Corrupt, name, message);
                    }
                }
            }
            Err(error) => {
                was_named = true;
                let lost = chunks.filter(|c| check.bad(record.class, c.fingerprint)).count();
                let message = format!("region {number}: {error}; {lost} chunks are lost");
                check.finding(FindingKind::Corrupt, name, message);
            }
        }
    }
    if !is_intact && !was_named {
        let message = "the checksum does not match, though all of its chunks are well: the damage \
                       is in padding or trailer";
        check.finding(FindingKind::Corrupt, name, message);
    }
    Ok(())
}
