//! Files that are opened and read ahead of the ordered stage, in the order in which it will need
//! them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use cutpoint_repository::Entry;
use rustix::io::Errno;

use crate::source::xattrs::{self, Xattrs};
use crate::source::{Answer, Handle, Helpers, SourceFile, Urgency, read_ahead};

/// The maximum size in bytes of a file that is read ahead completely. A larger one stays open, and the
/// system reads its beginning ahead.
const WHOLE_LEN_MAX: u64 = 64 * 1024;
/// The time within which a byte is read if it is in memory, in nanoseconds.
const READ_PER_BYTE_NS: u64 = 1;
/// The number of requests of one job.
const JOB_REQUESTS: usize = 12;
/// The number of bytes of one job.
const JOB_BYTES: u64 = 64 * 1024;
/// The maximum number of requests ahead of the ordered stage.
const REQUESTS_MAX: usize = 512;
/// The maximum number of bytes read ahead of the ordered stage.
const BYTES_MAX: u64 = 8 << 20;
/// The maximum number of files that stay open.
const OPEN_MAX: usize = 32;

/// A request about a name in a folder.
#[derive(Debug)]
struct Request {
    folder: Handle,
    name: Vec<u8>,
    is_file: bool,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum FileAhead {
    /// The file, open or read.
    File(std::io::Result<SourceFile>),
    /// The extended attributes of an entry that is not opened.
    Xattrs(Xattrs),
}

/// The cost of a request.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: u64,
    stays_open: bool,
}

/// The files that are opened and read ahead of the ordered stage.
#[derive(Debug)]
pub(super) struct FilesAhead {
    helpers: Option<Arc<Helpers>>,
    /// The requests of the next job.
    requests: Vec<Request>,
    request_bytes: u64,
    /// The jobs begun, with their numbers of requests.
    jobs: VecDeque<(usize, Answer<Vec<Option<FileAhead>>>)>,
    /// The rest of the answers of the job before these.
    answers: VecDeque<Option<FileAhead>>,
    /// The costs of all requests that are not taken.
    costs: VecDeque<Cost>,
    bytes: u64,
    open_count: usize,
}

impl FilesAhead {
    /// Creates the state without requests. Without `helpers`, there will be none.
    pub(super) fn new(helpers: Option<Arc<Helpers>>) -> FilesAhead {
        FilesAhead {
            helpers,
            requests: Vec::new(),
            request_bytes: 0,
            jobs: VecDeque::new(),
            answers: VecDeque::new(),
            costs: VecDeque::new(),
            bytes: 0,
            open_count: 0,
        }
    }

    /// Returns `true` if there are threads that work ahead.
    pub(super) fn is_used(&self) -> bool {
        self.helpers.as_ref().is_some_and(|helpers| helpers.have_begun())
    }

    /// Notes that the ordered stage itself has opened and read a file of `size` bytes, or the extended
    /// attributes of a name (no bytes), in the time `elapsed`, without waits for other stages.
    pub(super) fn note(&self, elapsed: Duration, size: u64) {
        if let Some(helpers) = self.helpers.as_ref().filter(|_| size <= WHOLE_LEN_MAX) {
            helpers.note(elapsed, Duration::from_nanos(READ_PER_BYTE_NS * size));
        }
    }

    /// Requests the file `entry` of `folder`. Returns `false` if nothing is done ahead.
    pub(super) fn request_file(&mut self, folder: &Handle, entry: &Entry) -> bool {
        let stays_open = entry.size > WHOLE_LEN_MAX;
        let bytes = if stays_open { 0 } else { entry.size };
        self.request(folder, entry, true, Cost { bytes, stays_open })
    }

    /// Requests the extended attributes of the entry `entry` of `folder`. Returns `false` if nothing is
    /// done ahead.
    pub(super) fn request_xattrs(&mut self, folder: &Handle, entry: &Entry) -> bool {
        self.request(folder, entry, false, Cost { bytes: 0, stays_open: false })
    }

    fn request(&mut self, folder: &Handle, entry: &Entry, is_file: bool, cost: Cost) -> bool {
        if !self.is_used() {
            return false;
        }
        let name = entry.name.clone();
        self.requests.push(Request { folder: folder.clone(), name, is_file });
        self.request_bytes += cost.bytes;
        self.bytes += cost.bytes;
        self.open_count += usize::from(cost.stays_open);
        self.costs.push_back(cost);
        if self.requests.len() >= JOB_REQUESTS || self.request_bytes >= JOB_BYTES || cost.stays_open
        {
            self.begin_job();
        }
        true
    }

    /// Has the requests of the next job done.
    fn begin_job(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        let bytes = std::mem::take(&mut self.request_bytes);
        if let Some(helpers) = self.helpers.as_ref().filter(|_| !requests.is_empty()) {
            let count = requests.len();
            let job = move || {
                let mut buffer = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
                requests.into_iter().map(|request| request.answer(&mut buffer)).collect()
            };
            self.jobs.push_back((count, helpers.begin(Urgency::InTurn, job)));
        }
    }

    /// Returns `true` if there is room for another request.
    pub(super) fn has_room(&self) -> bool {
        self.costs.len() < REQUESTS_MAX && self.bytes < BYTES_MAX && self.open_count < OPEN_MAX
    }

    /// Takes the answer to the oldest request. Returns `None` if it has to be asked for again.
    pub(super) fn take(&mut self) -> Option<FileAhead> {
        let cost = self.costs.pop_front()?;
        self.bytes -= cost.bytes;
        self.open_count -= usize::from(cost.stays_open);
        if self.answers.is_empty() {
            if self.jobs.is_empty() {
                self.begin_job();
            }
            let (count, answer) = self.jobs.pop_front()?;
            self.answers = match answer.wait() {
                Some(answers) => answers.into(),
                None => std::iter::repeat_with(|| None).take(count).collect(),
            };
        }
        self.answers.pop_front()?.filter(|answer| !answer.lacks_descriptors())
    }
}

impl Request {
    /// Does what is requested; `None` if that is left to the ordered stage. `buffer` has room for the
    /// bytes of all requests of the job.
    fn answer(self, buffer: &mut BytesMut) -> Option<FileAhead> {
        let Request { folder, name, is_file } = self;
        match is_file {
            true => {
                read_ahead(&folder, &name, WHOLE_LEN_MAX, buffer).transpose().map(FileAhead::File)
            }
            false => Some(FileAhead::Xattrs(xattrs::of_name(&folder, &name))),
        }
    }
}

impl FileAhead {
    /// Returns `true` if the file was not opened because others are open, of which there are fewer
    /// later.
    fn lacks_descriptors(&self) -> bool {
        let FileAhead::File(Err(error)) = self else { return false };
        let code = error.raw_os_error();
        [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()))
    }
}
