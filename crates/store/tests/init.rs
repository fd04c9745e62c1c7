//! A repository is made: what another `init` has left, and two at the same moment.

#[path = "common/backup.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod backup;
#[path = "common/whole.rs"]
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_store::error::Result;
use cutpoint_store::media::{Fault, Faulty, Media, Memory, Put};
use cutpoint_store::name::ObjectKind;

use backup::{back_up, init, init_by, open};

fn names(media: &dyn Media, kind: ObjectKind) -> Vec<String> {
    let listed = media.list(kind.folder()).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn remove_config(media: &dyn Media) {
    for name in names(media, ObjectKind::Config) {
        media.delete(&name).expect("memory deletes");
    }
}

/// What a cut-off init has left is gone after the next one; where more than keys is left, somebody
/// has lost the settings of a real repository.
#[test]
fn an_init_removes_the_keys_that_another_left() {
    let media: Arc<dyn Media> = Arc::new(Memory::new());
    init(media.clone()).expect("an empty memory takes a repository");
    remove_config(&*media);
    let left = names(&*media, ObjectKind::Key);
    init_by(media.clone(), 1).expect("keys alone are what an init has left");
    let keys = names(&*media, ObjectKind::Key);
    assert!(keys.len() == 2 && left.iter().all(|name| !keys.contains(name)), "{left:?} {keys:?}");
    let repository = open(media.clone(), 2).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");

    remove_config(&*media);
    let error = init(media.clone()).expect_err("there is more than keys");
    assert!(error.to_string().contains("no config"), "{error}");
}

/// Before one of its calls another process makes a repository at the same place.
#[derive(Debug)]
struct Overtaken {
    inner: Arc<dyn Media>,
    call: u64,
    calls: AtomicU64,
}

impl Overtaken {
    fn inner(&self) -> &dyn Media {
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.call {
            // It may find the first one's beginnings, but never a config.
            init_by(self.inner.clone(), 7).ok();
        }
        &*self.inner
    }
}

impl Media for Overtaken {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.inner().put_new(name, bytes)
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.inner().sync(name)
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        self.inner().get(name)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.inner().get_range(name, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.inner().head(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.inner().list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.inner().delete(name)
    }

    fn prepare(&self) -> Result<()> {
        self.inner().prepare()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// Of two that make a repository at the same moment one wins, and what it has made opens.
#[test]
fn one_of_two_makes_the_repository() {
    let calls = {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new()), Fault::None));
        init(faulty.clone()).expect("an empty memory takes a repository");
        faulty.calls()
    };
    let mut lost = 0;
    for call in 0..calls {
        let media: Arc<dyn Media> = Arc::new(Memory::new());
        let calls = AtomicU64::new(0);
        let first = init(Arc::new(Overtaken { inner: media.clone(), call, calls }));
        lost += u64::from(first.is_err());
        let repository =
            open(media.clone(), 1).unwrap_or_else(|error| panic!("overtaken at {call}: {error}"));
        if let Ok(first) = first {
            assert_eq!(first.config().repository, repository.config().repository, "{call}");
        }
        back_up(&repository, &[1], false).expect("it works");
        let keys = names(&*media, ObjectKind::Key).len();
        assert!(keys == 2, "overtaken at {call}: {keys} keys");
    }
    assert!(0 < lost && lost < calls, "{lost} of {calls} lost");
}
