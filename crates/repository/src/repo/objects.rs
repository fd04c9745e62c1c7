//! Reading and putting whole objects.

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Put, Result, Staged, too_long};

use super::listing::{get_listed, listed_len_max};
use super::newest_config::as_damage;
use super::repository::Repository;
use crate::crypto::{Header, SALT_LEN, open_object, seal_object};
use crate::format::names::ObjectName;

/// Maximum number of objects that are read at once.
const BATCH_COUNT_MAX: usize = 512;
/// Maximum length of the objects that are read at once, in bytes, unless a single one is longer.
const BATCH_BYTES_MAX: u64 = 32 << 20;

impl Repository {
    /// Returns fresh random bytes for one object.
    pub fn salt(&self) -> Result<[u8; SALT_LEN]> {
        let mut salt = [0; SALT_LEN];
        self.environment.random(&mut salt)?;
        Ok(salt)
    }

    /// Puts an object whose name no other client uses.
    ///
    /// # Errors
    ///
    /// Returns a `Conflict` error if another object has the name.
    pub fn put(&self, name: ObjectName, bytes: Bytes) -> Result<()> {
        if self.put_or_find(name, &bytes)? { Ok(()) } else { Err(shared_ticket(name)) }
    }

    /// Returns `true` if the object at `path` equals `bytes`. A longer one is not read.
    fn is_there(&self, path: &str, bytes: &Bytes) -> Result<bool> {
        match self.storage.get_at_most(path, bytes.len() as u64) {
            Ok(found) => Ok(found == *bytes),
            Err(error) if error.kind() == Kind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts an object. Returns `true` if the object stored under the name is now `bytes`. No error
    /// is a loss ([`Error::is_loss`]).
    pub(super) fn put_or_find(&self, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        require_len(name, bytes.len() as u64)?;
        let path = name.to_string();
        let put = || match self.storage.put_new(&path, bytes.clone())? {
            Put::Created => Ok(true),
            // A storage that retries on its own may find its first attempt, in which case the
            // object is the right one.
            Put::Exists if self.is_there(&path, bytes)? => self.storage.sync(&path).map(|()| true),
            Put::Exists => Ok(false),
        };
        put().map_err(Error::of_put)
    }

    /// Puts an object whose bytes are staged.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub(crate) fn put_staged(&self, name: ObjectName, staged: Box<dyn Staged>) -> Result<()> {
        match staged.finish().map_err(Error::of_put)? {
            Put::Created => Ok(()),
            Put::Exists => Err(shared_ticket(name)),
        }
    }

    /// Gets and opens an object of one part.
    ///
    /// # Errors
    ///
    /// Returns the `Missing`, `Corrupt` and `WrongKey` errors of reading and of [`open_object`].
    pub fn get(&self, name: ObjectName) -> Result<Vec<u8>> {
        let bytes = self.storage.get(&name.to_string())?;
        open_object(&self.keys, name, &bytes).map_err(|error| as_damage(name, &bytes, error))
    }

    /// Lists the objects of a kind with their lengths, sorted by path. Paths that are not names of
    /// objects are left out.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::list`](cutpoint_storage::Storage::list).
    pub(crate) fn list_objects(&self, kind: ObjectKind) -> Result<Vec<(ObjectName, u64)>> {
        let listed = self.storage.list(kind.folder())?.into_iter();
        Ok(listed.filter_map(|(path, len)| Some((ObjectName::parse(&path).ok()?, len))).collect())
    }

    /// Gets objects whose lengths a listing has given, several at a time, and calls `take` for each
    /// in order. The bytes that are held at once are limited.
    ///
    /// # Errors
    ///
    /// Returns any error of `take`. The result of an object is that of [`Storage::get_at_most`].
    pub(crate) fn get_many(
        &self,
        wanted: &[(ObjectName, u64)],
        mut take: impl FnMut(ObjectName, Result<Bytes>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = wanted;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, len): &&(ObjectName, u64)| {
                bytes += *len;
                bytes <= BATCH_BYTES_MAX
            };
            let count = rest.iter().take(BATCH_COUNT_MAX).take_while(fits).count().max(1);
            let (batch, others) = rest.split_at(count);
            rest = others;
            let paths: Vec<(String, u64)> = batch
                .iter()
                .map(|(name, len)| (name.to_string(), listed_len_max(*name, *len)))
                .collect();
            for ((name, _), bytes) in batch.iter().zip(self.storage.get_many(&paths)) {
                take(*name, bytes)?;
            }
        }
        Ok(())
    }

    /// Opens and decodes the bytes of an object of one part. Also returns the key epoch with which
    /// the object is sealed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_object`] and `decode`, naming the object.
    pub(crate) fn open_bytes<T>(
        &self,
        name: ObjectName,
        bytes: &Bytes,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<(u32, T)> {
        let value = self.open_owned(name, bytes, |body| decode(&body))?;
        Ok((Header::decode(&name, bytes)?.epoch, value))
    }

    /// Opens the bytes of an object of one part, and decodes its body, which the decoder may keep.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_object`] and `decode`, naming the object.
    pub(crate) fn open_owned<T>(
        &self,
        name: ObjectName,
        bytes: &Bytes,
        decode: impl FnOnce(Vec<u8>) -> Result<T>,
    ) -> Result<T> {
        let body =
            open_object(&self.keys, name, bytes).map_err(|error| as_damage(name, bytes, error))?;
        decode(body).map_err(|error| error.of(name))
    }

    /// Reads, opens and decodes an object of one part whose length a listing has given. Also
    /// returns the key epoch with which the object is sealed.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::get`] and `decode`, naming the object; `Corrupt` if the
    /// object is longer than listed.
    pub(crate) fn read_listed<T>(
        &self,
        name: ObjectName,
        len: u64,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<(u32, T)> {
        self.open_bytes(name, &get_listed(&*self.storage, name, len)?, decode)
    }

    /// Reads, opens and decodes an object of one part.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::get`] and `decode`, naming the object.
    pub(crate) fn read<T>(
        &self,
        name: ObjectName,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        decode(&self.get(name)?).map_err(|error| error.of(name))
    }

    /// Seals and puts an object of one part.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub fn seal_and_put(&self, name: ObjectName, body: &[u8]) -> Result<()> {
        self.put(name, seal_object(&self.keys, name, self.salt()?, body))
    }
}

/// Refuses to write an object that is longer than the maximum of its kind.
///
/// # Errors
///
/// Returns an `Invalid` error if the object is too long.
pub(crate) fn require_len(name: ObjectName, len: u64) -> Result<()> {
    let len_max = name.kind().len_max();
    if len <= len_max {
        return Ok(());
    }
    let message = format!("too long ({len} bytes, at most {len_max} allowed for this kind)");
    Err(Error::invalid(name, message))
}

/// Refuses to read an object that is longer than the maximum of its kind.
///
/// # Errors
///
/// Returns a `Corrupt` error if the object is too long.
pub(crate) fn refuse_longer(name: ObjectName, stored_len: u64) -> Result<()> {
    let len_max = name.kind().len_max();
    if stored_len <= len_max {
        return Ok(());
    }
    Err(too_long(&name.to_string(), stored_len, len_max))
}

fn shared_ticket(name: ObjectName) -> Error {
    Error::new(
        Kind::Conflict,
        name,
        "exists already with other content: two writers share a ticket",
    )
}
