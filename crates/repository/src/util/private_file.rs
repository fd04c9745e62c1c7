//! Files and folders that only their owner may read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use cutpoint_storage::system;

/// The age from which on a staged file is left over, because no process writes to it any more.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Creates a file with access for its owner only, which can be read as well.
///
/// # Errors
///
/// Returns `AlreadyExists` if there is a file, and any error of the file system.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    system::private_options().read(true).write(true).create_new(true).open(path)
}

/// Creates a file without a name in `folder`, with access for its owner only. The file is gone once
/// it is closed. Creates the folder if it does not exist.
///
/// # Errors
///
/// Returns any error of the file system.
pub(crate) fn create_unnamed_file(folder: &Path) -> io::Result<File> {
    create_private_folder(folder)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            return Ok(file.into());
        }
    }
    // Not every file system has files without names. A name that is removed at once does as well.
    Ok(tempfile::NamedTempFile::new_in(folder)?.into_file())
}

/// Creates a folder, including missing parents, with access for its owner only. An existing folder
/// stays as it is.
///
/// # Errors
///
/// Returns any error of the file system.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    system::create_private_folder(folder, true)
}

/// Replaces a file atomically by one with `bytes` and access for its owner only. Creates its folder
/// if that does not exist.
///
/// # Errors
///
/// Returns any error of the file system, except that permissions of the folder cannot be changed.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let no_name = || io::Error::other("a file has a name and a folder");
    let folder = path.parent().ok_or_else(no_name)?;
    make_private_folder(folder)?;
    let mut name = OsString::from(path.file_name().ok_or_else(no_name)?);
    name.push(format!(".{}", std::process::id()));
    let staged = folder.join(name);
    // An earlier process of the same number may have left the file, with any mode.
    fs::remove_file(&staged).ok();
    let result = create_private_file(&staged)
        .and_then(|mut out| {
            out.write_all(bytes)?;
            out.sync_all()
        })
        .and_then(|()| fs::rename(&staged, path));
    if result.is_err() {
        fs::remove_file(&staged).ok();
    }
    clear_staged(folder);
    result
}

/// Creates a folder, including missing parents, with access for its owner only. If an existing
/// folder is accessible to other users, removes their permissions.
fn make_private_folder(folder: &Path) -> io::Result<()> {
    create_private_folder(folder)?;
    // A failure is ignored: the owner of the folder may be another user, and the folder holds no
    // secrets.
    system::hide_from_others(folder).ok();
    Ok(())
}

/// Removes the staged files of processes that were killed. Files that cannot be removed do no harm.
fn clear_staged(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let extensions = path.extension().zip(path.file_stem().map(Path::new));
        let is_staged = extensions.is_some_and(|(process, stem)| {
            process.to_str().is_some_and(|process| process.parse::<u32>().is_ok())
                && stem.extension().is_some_and(|kind| kind == "json" || kind == "read")
        });
        let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(io::Error::other);
        if is_staged && age().is_ok_and(|age| age > STAGED_AGE_MAX) {
            fs::remove_file(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn unnamed_file_is_private_and_leaves_no_name() {
        let folder = tempfile::tempdir().expect("made");
        let below = folder.path().join("one/two");
        let mut file = create_unnamed_file(&below).expect("made");
        file.write_all(b"content").expect("written");
        assert_eq!(file.metadata().expect("open").mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&below).expect("made").mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&below).expect("it lists").count(), 0, "no name");
        create_unnamed_file(&folder.path().join("one")).expect("an existing folder");
        fs::write(folder.path().join("file"), b"").expect("written");
        create_unnamed_file(&folder.path().join("file")).expect_err("no folder");
    }
}
