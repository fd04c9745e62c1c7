//! What all requests share: the reader, the newest view, and folders that were listed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutpoint_backup::browse::Contents;
use cutpoint_repository::{Content, Entry, Reader, Snapshot, TicketId, View};

use super::access::Access;
use super::failure::Failure;
use super::listing::Folders;
use super::lock;
use super::measurement::SpaceJob;
use super::query::Query;
use super::restore_run::Restores;

/// The minimum time between two listings of the repository.
const LIST_EVERY: Duration = Duration::from_secs(3);
/// The maximum number of problems that are kept for the page.
const PROBLEMS_MAX: usize = 200;

/// A source of newer views.
pub trait ViewSource: Send + Sync {
    /// Lists the repository again. Called by one thread at a time.
    ///
    /// # Errors
    ///
    /// Returns a message if the repository cannot be listed. The page keeps the view that it has.
    fn view(&self) -> Result<View, String>;
}

/// The properties of a page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// The place of the repository, to be shown.
    pub place: String,
    /// The time since which the stored data that was not read for longest is unread, in nanoseconds
    /// since 1970, as far as this machine knows.
    pub unread_since_ns: Option<i64>,
    /// Set if files may be restored to this machine.
    pub may_restore: bool,
    /// Set if WebDAV clients are answered.
    pub has_dav: bool,
}

/// The state of a server.
pub(super) struct Shared {
    pub(super) access: Access,
    pub(super) options: PageOptions,
    pub(super) contents: Contents,
    pub(super) folders: Folders,
    pub(super) space: SpaceJob,
    pub(super) restores: Restores,
    source: Box<dyn ViewSource>,
    view: Mutex<Arc<View>>,
    /// The time of the last listing. One request at a time lists; others use the view that there is.
    listed: Mutex<Instant>,
    problems: Mutex<(u64, VecDeque<String>)>,
    readings: AtomicU64,
}

/// An entry of a snapshot that a request names.
pub(super) struct Named {
    pub(super) view: Arc<View>,
    pub(super) id: TicketId,
    pub(super) entry: Entry,
}

impl Named {
    /// Returns the snapshot.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.view.commits.get(&self.id).and_then(|commit| commit.snapshot())
    }
}

/// Returns the tree of the root of a snapshot.
pub(super) fn root(view: &View, id: TicketId) -> Content {
    let snapshot = view.commits.get(&id).and_then(|commit| commit.snapshot());
    snapshot.map_or(Content::Empty, |snapshot| snapshot.root.clone())
}

impl Shared {
    pub(super) fn new(
        reader: Arc<Reader>,
        source: Box<dyn ViewSource>,
        access: Access,
        options: PageOptions,
    ) -> Shared {
        let view = Arc::new(reader.view());
        Shared {
            access,
            options,
            contents: Contents::new(reader),
            folders: Folders::default(),
            space: SpaceJob::default(),
            restores: Restores::default(),
            source,
            view: Mutex::new(view),
            listed: Mutex::new(Instant::now()),
            problems: Mutex::default(),
            readings: AtomicU64::new(0),
        }
    }

    /// Returns a view of the repository that is a few seconds old at most, if it can be listed.
    pub(super) fn view(&self) -> Arc<View> {
        if let Ok(mut listed) = self.listed.try_lock()
            && listed.elapsed() >= LIST_EVERY
        {
            match self.source.view() {
                Ok(view) => *lock(&self.view) = Arc::new(view),
                Err(message) => {
                    self.problem(format!("the repository cannot be listed again: {message}"));
                }
            }
            *listed = Instant::now();
        }
        Arc::clone(&lock(&self.view))
    }

    /// Finds the snapshot that `query` names.
    ///
    /// # Errors
    ///
    /// Fails if there is no such snapshot.
    pub(super) fn snapshot(&self, name: &str) -> Result<(Arc<View>, TicketId), Failure> {
        let view = self.view();
        let id = TicketId::parse(name).filter(|id| {
            // Forgotten ones can be seen until a prune takes them, but are not shown.
            view.snapshots().iter().any(|(known, _)| known == id)
        });
        let id = id.ok_or_else(|| {
            Failure::missing("there is no such snapshot any more; it may have been forgotten")
        })?;
        Ok((view, id))
    }

    /// Finds the entry that the parameters `snapshot` and `path` name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub(super) fn named(&self, query: &Query) -> Result<Named, Failure> {
        let (view, id) = self.snapshot(query.required("snapshot")?)?;
        let root = root(&view, id);
        let entry = self.contents.find(&root, &query.path())?;
        let entry = entry.ok_or_else(|| Failure::missing("the snapshot has no such path"))?;
        Ok(Named { view, id, entry })
    }

    /// Returns a number for a reader of a file.
    pub(super) fn new_reading(&self) -> u64 {
        self.readings.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a problem, which the page shows.
    pub(super) fn problem(&self, message: String) {
        let mut problems = lock(&self.problems);
        if problems.1.back() == Some(&message) {
            return;
        }
        problems.0 += 1;
        problems.1.push_back(message);
        if problems.1.len() > PROBLEMS_MAX {
            problems.1.pop_front();
        }
    }

    /// Returns the number of all problems, and the latest of those behind the first `known`.
    pub(super) fn problems_since(&self, known: u64) -> (u64, Vec<String>) {
        let problems = lock(&self.problems);
        let new = usize::try_from(problems.0.saturating_sub(known)).unwrap_or(usize::MAX);
        let skipped = problems.1.len().saturating_sub(new);
        (problems.0, problems.1.iter().skip(skipped).cloned().collect())
    }
}
