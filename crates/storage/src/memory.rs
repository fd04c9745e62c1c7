//! A storage in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::storage::{Put, Storage, Visibility, require_count, too_long, too_short};

/// A storage in memory; its objects are lost when the process ends.
#[derive(Debug, Default)]
pub struct Memory {
    objects: Mutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    by_name: BTreeMap<String, Object>,
    /// The shift of the clock that stamps objects, for tests.
    shift_ns: i64,
}

#[derive(Debug)]
struct Object {
    bytes: Bytes,
    stamp_ns: i64,
}

impl Objects {
    fn get(&self, name: &str) -> Result<&Bytes> {
        let object = self.by_name.get(name).ok_or_else(|| Error::missing(name, "not found"))?;
        Ok(&object.bytes)
    }

    fn put(&mut self, name: &str, bytes: Bytes) {
        let stamp_ns = now_ns().saturating_add(self.shift_ns);
        self.by_name.insert(name.to_owned(), Object { bytes, stamp_ns });
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of the storage, not of the client")]
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Memory {
    /// Creates an empty storage.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Moves the clock that stamps later objects ([`Storage::stamp_ns`]) by `ns` nanoseconds. Tests
    /// use this to let time pass, or to let a clock jump.
    pub fn shift_clock(&self, ns: i64) {
        let mut objects = self.objects();
        objects.shift_ns = objects.shift_ns.saturating_add(ns);
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Memory {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let mut objects = self.objects();
        if objects.by_name.contains_key(name) {
            return Ok(Put::Exists);
        }
        objects.put(name, bytes);
        Ok(Put::Created)
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.objects().get(name).map(drop)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        let bytes = self.objects().get(name)?.clone();
        let len = bytes.len() as u64;
        if len > len_max { Err(too_long(name, len, len_max)) } else { Ok(bytes) }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let bytes = self.objects().get(name)?.clone();
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(len)?));
        match range.filter(|range| range.end <= bytes.len()) {
            Some(range) => Ok(bytes.slice(range)),
            None => Err(too_short(name, offset, len)),
        }
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.objects().by_name.get(name).map(|object| object.bytes.len() as u64))
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.objects().by_name.get(name).map(|object| object.stamp_ns))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let folder = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let objects = self.objects();
        let below = objects.by_name.range(folder.clone()..);
        let found: Vec<(String, u64)> = below
            .take_while(|(name, _)| name.starts_with(&folder))
            .map(|(name, object)| (name.clone(), object.bytes.len() as u64))
            .collect();
        require_count(prefix, found.len())?;
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.objects().by_name.remove(name);
        Ok(())
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.objects().put(name, bytes);
        Ok(())
    }

    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::AtOnce)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lists_a_folder_with_or_without_a_slash_and_empty_lists_all() {
        let storage = Memory::new();
        for name in ["data/00/a", "data2/b"] {
            storage.put_new(name, Bytes::new()).expect("memory takes it");
        }
        let names = |prefix| -> Vec<String> {
            let listed = storage.list(prefix).expect("memory lists");
            listed.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("data"), ["data/00/a"]);
        assert_eq!(names("data/"), ["data/00/a"]);
        assert_eq!(names(""), ["data/00/a", "data2/b"]);
    }
}
