//! Listings that lag behind puts: an object counts as missing only if its name is not found either.
//!
//! The repository assumes that a listing shows everything that was put before
//! (`docs/protocol.md`). Some storages do not keep this promise for a few seconds. Therefore an
//! object that a listing lacks is looked up by its name, and if it exists, the caller waits for the
//! listing.

use std::sync::Arc;
use std::time::Duration;

use cutpoint_storage::{
    Environment, Error, Kind, ObjectKind, Result, Storage, WaitNotice, WaitReason, wait,
};

use crate::format::names::ObjectName;
use crate::util::at_once::at_once;

/// The first pause between two listings. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(125);
/// The maximum of the sum of all pauses of a command.
const PAUSES_MAX: Duration = Duration::from_secs(8);
/// The shortest pause that is told to the user.
const TOLD_MIN: Duration = Duration::from_secs(1);

/// The pauses of one command between lagging listings.
#[derive(Debug)]
pub struct Pauses {
    /// The environment, which receives requests to stop.
    environment: Arc<dyn Environment>,
    next: Duration,
    spent: Duration,
}

/// The end of waiting for a listing without success.
#[derive(Debug, thiserror::Error)]
pub enum LagError {
    /// The pauses are used up.
    #[error("{name}: exists, but listings do not show it (expected within {} s)", waited.as_secs())]
    Unlisted {
        /// The object, which exists.
        name: ObjectName,
        /// The sum of all pauses.
        waited: Duration,
    },
    /// A request to stop has ended the pause.
    #[error("interrupted")]
    Interrupted,
    /// Another error prevents listing or opening.
    #[error(transparent)]
    Other(#[from] Error),
}

impl LagError {
    /// Converts this error into a `Storage` error about the listing, an `Interrupted` error, or the
    /// other error itself.
    pub fn into_error(self) -> Error {
        match self {
            LagError::Other(error) => error,
            LagError::Interrupted => wait::interrupted(""),
            error @ LagError::Unlisted { .. } => Error::new(Kind::Storage, "", error),
        }
    }
}

impl Pauses {
    /// Creates the pauses of a command that begins: 0.125 s, 0.25 s and so on, about 8 s in total.
    pub fn new(environment: Arc<dyn Environment>) -> Pauses {
        Pauses { environment, next: PAUSE, spent: Duration::ZERO }
    }

    /// Waits for the listing to show `name`, an object that exists.
    ///
    /// # Errors
    ///
    /// Returns [`LagError::Unlisted`] if the pauses are used up, and [`LagError::Interrupted`] if a
    /// request to stop ends the pause.
    pub fn wait(&mut self, name: ObjectName) -> Result<(), LagError> {
        if self.spent + self.next > PAUSES_MAX {
            return Err(LagError::Unlisted { name, waited: self.spent });
        }
        if self.next >= TOLD_MIN {
            self.tell(&name);
        }
        if !wait::sleep(&*self.environment, self.next) {
            return Err(LagError::Interrupted);
        }
        self.spent += self.next;
        self.next *= 2;
        Ok(())
    }

    /// Tells that the listing is awaited, and when the wait ends without success.
    fn tell(&self, name: &ObjectName) {
        let left_ns = i64::try_from((PAUSES_MAX - self.spent).as_nanos()).unwrap_or(i64::MAX);
        self.environment.tell_wait(&WaitNotice {
            reason: WaitReason::UnlistedObject,
            text: format!("{name} exists, but listings do not show it yet"),
            until_ns: self.environment.now_ns().saturating_add(left_ns),
        });
    }
}

/// Returns the first settings of a repository if they exist but no listing shows any. Returns
/// `None` if there are no settings, or if some are listed.
fn unlisted_settings(storage: &dyn Storage) -> Result<Option<ObjectName>> {
    if !storage.list(ObjectKind::Config.folder())?.is_empty() {
        return Ok(None);
    }
    for copy in [false, true] {
        // The first settings are never deleted.
        let name = ObjectName::Config { number: 0, copy };
        if storage.head(&name.to_string())?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns `true` if there is a repository, but no listing shows its settings.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn is_unlisted(storage: &dyn Storage) -> Result<bool> {
    Ok(unlisted_settings(storage)?.is_some())
}

/// Returns `true` if listings show no repository: either nothing, or the objects of an `init` that
/// was cut off before its last step, the config. No writer can have begun then.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn is_absent(storage: &dyn Storage) -> Result<bool> {
    // A connection that fails is made once.
    let config = storage.list(ObjectKind::Config.folder())?;
    let mut kinds = ObjectKind::ALL.to_vec();
    kinds.retain(|kind| !matches!(kind, ObjectKind::Key | ObjectKind::Config));
    let listings = at_once(storage, kinds, |kind| storage.list(kind.folder()))?;
    Ok(config.is_empty() && listings.iter().all(Vec::is_empty))
}

/// Calls `open`, repeatedly while listings show no repository although its settings exist.
///
/// # Errors
///
/// Returns any error of `open`, of [`Pauses::wait`], and of the storage.
pub fn open_when_listed<T>(
    storage: &dyn Storage,
    pauses: &mut Pauses,
    open: impl Fn() -> Result<T>,
) -> Result<T, LagError> {
    let mut may_have_caught_up = false;
    loop {
        let error = match open() {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        // A storage that does not answer is not asked again.
        if error.kind() != Kind::Missing {
            return Err(error.into());
        }
        match unlisted_settings(storage)? {
            Some(name) => {
                pauses.wait(name)?;
                may_have_caught_up = true;
            }
            None if std::mem::take(&mut may_have_caught_up) => {}
            None => return Err(error.into()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use cutpoint_storage::stop::Stop;
    use cutpoint_storage::{Interruptible, Layer, Memory, System};

    use super::*;
    use crate::crypto::{CipherSuite, Unlock};
    use crate::repo::repository::{InitOptions, Repository};

    /// A storage whose next listings show fewer objects than exist.
    #[derive(Debug, Default)]
    pub(crate) struct Lagging {
        inner: Memory,
        /// The number of further calls to `list` that lag.
        lagging: AtomicU64,
        /// The text that the names of missing objects contain.
        lacks: &'static str,
    }

    impl Lagging {
        pub(crate) fn new(lacks: &'static str) -> Arc<Lagging> {
            Arc::new(Lagging { lacks, ..Lagging::default() })
        }

        /// Lets the next `count` listings lag.
        pub(crate) fn lag(&self, count: u64) {
            self.lagging.store(count, Ordering::SeqCst);
        }

        fn left(&self) -> u64 {
            self.lagging.load(Ordering::SeqCst)
        }
    }

    impl Layer for Lagging {
        fn below(&self) -> &dyn Storage {
            &self.inner
        }

        fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
            let mut found = self.inner.list(prefix)?;
            let lags = |left: u64| left.checked_sub(1);
            if self.lagging.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lags).is_ok() {
                found.retain(|(name, _)| !name.contains(self.lacks));
            }
            Ok(found)
        }
    }

    /// Creates a repository that is not encrypted.
    pub(crate) fn init(storage: Arc<dyn Storage>) -> Repository {
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed:size=4096".to_owned(),
            region_size: 65_536,
            container_size: 4 << 20,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
            ..InitOptions::default()
        };
        Repository::init(storage, Arc::new(System), &Unlock::Nothing, &options)
            .expect("an empty storage takes a repository")
    }

    fn open(storage: &Arc<Lagging>, pauses: &mut Pauses) -> Result<Repository, LagError> {
        let storage: Arc<dyn Storage> = storage.clone();
        open_when_listed(&*storage, pauses, || {
            Repository::open(storage.clone(), Arc::new(System), &Unlock::Nothing)
        })
    }

    fn pauses() -> Pauses {
        Pauses::new(Arc::new(System))
    }

    #[test]
    fn repository_in_lagging_listing_opens() {
        for lacks in ["/", "config/"] {
            let storage = Lagging::new(lacks);
            init(storage.clone());
            // Opening takes several attempts.
            storage.lag(20);
            open(&storage, &mut pauses()).unwrap_or_else(|error| panic!("{lacks}: {error:#}"));
            assert_eq!(storage.left(), 0, "{lacks}: the listings have lagged");
        }
    }

    #[test]
    fn missing_repository_is_reported_at_once() {
        let storage = Lagging::new("/");
        let began_ns = System.elapsed_ns();
        let error = open(&storage, &mut pauses()).expect_err("nothing is there");
        assert!(System.elapsed_ns() - began_ns < 5_000_000_000, "nothing is waited for");
        assert!(error.to_string().contains("neither config nor keys"), "{error:#}");
    }

    #[test]
    fn listing_that_lags_for_ever_is_reported() {
        let mut pauses = Pauses { spent: PAUSES_MAX, ..pauses() };
        let storage = Lagging::new("/");
        init(storage.clone());
        storage.lag(u64::MAX);
        let error = open(&storage, &mut pauses).expect_err("no listing shows it");
        assert!(matches!(error, LagError::Unlisted { waited: PAUSES_MAX, .. }), "{error:#}");
        assert!(error.to_string().contains("config/"), "{error:#}");
        assert_eq!(error.into_error().kind(), Kind::Storage, "trying again may help");
    }

    #[test]
    fn pause_after_request_to_stop_is_an_interruption_at_once() {
        let stop = Stop::default();
        stop.ask(System.elapsed_ns());
        let environment = Arc::new(Interruptible::new(System, stop));
        let mut pauses = Pauses { environment, next: PAUSES_MAX, spent: Duration::ZERO };
        let began_ns = System.elapsed_ns();
        let waited = pauses.wait(ObjectName::Config { number: 0, copy: false });
        let error = waited.expect_err("no pause is made");
        assert!(matches!(error, LagError::Interrupted), "{error:#}");
        assert_eq!(error.into_error().kind(), Kind::Interrupted, "the caller asked for it");
        assert!(System.elapsed_ns() - began_ns < 2_000_000_000, "no pause is made");
    }
}
