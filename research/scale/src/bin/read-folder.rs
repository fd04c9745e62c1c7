//! Reads all files below a folder with several threads, for `research/scale/cold.py`.
//!
//! Usage: `read-folder FOLDER THREADS [stat]`. Prints the seconds, the number of files and that of
//! bytes. With `stat`, asks for the metadata of the files instead of reading them. Each thread takes
//! one folder or up to 16 files of a folder after the other.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use std::{mem, thread};

/// The number of files that a thread takes at a time.
const FILES_MAX: usize = 16;

/// Work for one thread.
#[derive(Debug)]
enum Job {
    Folder(PathBuf),
    Files(Vec<PathBuf>),
}

/// The jobs, and the number of those that are open or in work.
#[derive(Debug, Default)]
struct Queue {
    jobs: Mutex<(Vec<Job>, usize)>,
    changed: Condvar,
}

impl Queue {
    fn add(&self, added: impl IntoIterator<Item = Job>) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = jobs.0.len();
        jobs.0.extend(added);
        jobs.1 += jobs.0.len() - before;
        self.changed.notify_all();
    }

    fn take(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        while jobs.0.is_empty() && jobs.1 > 0 {
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        jobs.0.pop()
    }

    fn finish(&self) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.1 -= 1;
        self.changed.notify_all();
    }
}

/// Counts of files and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    files: u64,
    bytes: u64,
}

fn list(folder: &Path, queue: &Queue) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            queue.add([Job::Folder(entry.path())]);
        } else {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    queue.add(files.chunks(FILES_MAX).map(|files| Job::Files(files.to_vec())));
    Ok(())
}

fn process(queue: &Queue, reads: bool) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut buffer = vec![0; 1 << 20];
    while let Some(mut job) = queue.take() {
        match &mut job {
            Job::Folder(folder) => list(folder, queue)?,
            Job::Files(files) => {
                for path in mem::take(files) {
                    counts.files += 1;
                    if !reads {
                        counts.bytes += fs::symlink_metadata(path)?.len();
                        continue;
                    }
                    let mut file = File::open(path)?;
                    loop {
                        let count = file.read(&mut buffer)?;
                        counts.bytes += count as u64;
                        if count < buffer.len() {
                            break;
                        }
                    }
                }
            }
        }
        queue.finish();
    }
    Ok(counts)
}

fn run(folder: &Path, thread_count: usize, reads: bool) -> io::Result<Counts> {
    let queue = Queue::default();
    queue.add([Job::Folder(folder.to_owned())]);
    let mut total = Counts::default();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..thread_count).map(|_| scope.spawn(|| process(&queue, reads))).collect();
        for thread in threads {
            let counts = thread.join().map_err(|_| io::Error::other("a thread has panicked"))??;
            total.files += counts.files;
            total.bytes += counts.bytes;
        }
        Ok(total)
    })
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (folder, threads, reads) = match &arguments[..] {
        [folder, threads] => (folder, threads.parse(), true),
        [folder, threads, word] if word == "stat" => (folder, threads.parse(), false),
        _ => {
            eprintln!("usage: read-folder FOLDER THREADS [stat]");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    match run(folder.as_ref(), threads.unwrap_or(1), reads) {
        Ok(Counts { files, bytes }) => {
            println!("{:.3} {files} {bytes}", begin.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("read-folder: {error}");
            ExitCode::FAILURE
        }
    }
}
