//! Writes many small files with several threads, for `research/scale/cold.py`: what a restore cannot
//! do without.
//!
//! Usage: `write-folder FOLDER THREADS FILES BYTES`. Makes FILES files of BYTES bytes, 100 in a folder,
//! and sets their modification times. Each thread takes one folder after the other.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

/// The number of files of a folder.
const FILES_IN_FOLDER: u64 = 100;
/// The age of the files.
const AGE: Duration = Duration::from_secs(72 * 3600);

struct Work<'a> {
    folder: &'a Path,
    file_count: u64,
    bytes: Vec<u8>,
    next_folder: AtomicU64,
}

impl Work<'_> {
    fn write(&self) -> io::Result<()> {
        let modified = SystemTime::now() - AGE;
        loop {
            let number = self.next_folder.fetch_add(1, Ordering::Relaxed);
            let first = number * FILES_IN_FOLDER;
            if first >= self.file_count {
                return Ok(());
            }
            let folder = self.folder.join(format!("folder{number:05}"));
            fs::create_dir_all(&folder)?;
            for file in first..self.file_count.min(first + FILES_IN_FOLDER) {
                let mut file = File::create_new(folder.join(format!("file{file:07}")))?;
                file.write_all(&self.bytes)?;
                file.set_modified(modified)?;
            }
        }
    }
}

fn run(work: &Work<'_>, thread_count: u64) -> io::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(|| work.write())).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        })
    })
}

/// Returns the folder and the numbers of threads, files and bytes.
fn parse(arguments: &[String]) -> Option<(&str, u64, u64, usize)> {
    let [folder, threads, files, bytes] = arguments else { return None };
    Some((folder, threads.parse().ok()?, files.parse().ok()?, bytes.parse().ok()?))
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let Some((folder, thread_count, file_count, len)) = parse(&arguments) else {
        eprintln!("usage: write-folder FOLDER THREADS FILES BYTES");
        return ExitCode::from(2);
    };
    let bytes = vec![b'x'; len];
    let next_folder = AtomicU64::new(0);
    let work = Work { folder: folder.as_ref(), file_count, bytes, next_folder };
    match run(&work, thread_count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("write-folder: {error}");
            ExitCode::FAILURE
        }
    }
}
