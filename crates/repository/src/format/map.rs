//! Maps with integer keys, the form of all metadata.
//!
//! A map is CBOR (RFC 8949) of definite length. Its keys are unsigned integers in rising order,
//! without repetition. A reader refuses an unknown key below 128, because it could change the
//! meaning of known ones, and keeps but ignores unknown keys from 128 on ([`Extra`]).

use cutpoint_storage::{Error, Kind, Result};
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

/// The smallest key that a reader may ignore.
pub const KEY_OPTIONAL_MIN: u32 = 128;

/// The maximum nesting depth at which an unknown value is skipped.
const DEPTH_MAX: usize = 16;

/// Entries of a map that this version does not know and may ignore: (key, encoded value).
pub type Extra = Vec<(u32, Vec<u8>)>;

/// Builds one map. Keys must be given in rising order.
#[derive(Debug)]
pub struct MapWriter {
    count: u64,
    key_last: Option<u32>,
    body: Encoder<Vec<u8>>,
}

/// The message of errors that cannot occur, because writing to memory cannot fail.
const NEVER: &str = "writing to a vector does not fail";

impl MapWriter {
    /// Creates an empty map.
    pub fn new() -> MapWriter {
        MapWriter { count: 0, key_last: None, body: Encoder::new(Vec::new()) }
    }

    fn key(&mut self, key: u32) -> &mut Encoder<Vec<u8>> {
        assert!(self.key_last.is_none_or(|last| last < key), "key {key} is out of order");
        self.key_last = Some(key);
        self.count += 1;
        self.body.u32(key).expect(NEVER)
    }

    /// Adds an unsigned integer.
    pub fn uint(&mut self, key: u32, value: u64) -> &mut Self {
        self.key(key).u64(value).expect(NEVER);
        self
    }

    /// Adds a signed integer.
    pub fn int(&mut self, key: u32, value: i64) -> &mut Self {
        self.key(key).i64(value).expect(NEVER);
        self
    }

    /// Adds a boolean.
    pub fn bool(&mut self, key: u32, value: bool) -> &mut Self {
        self.key(key).bool(value).expect(NEVER);
        self
    }

    /// Adds a byte string.
    pub fn bytes(&mut self, key: u32, value: &[u8]) -> &mut Self {
        self.key(key).bytes(value).expect(NEVER);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, key: u32, value: &str) -> &mut Self {
        self.key(key).str(value).expect(NEVER);
        self
    }

    /// Adds the output of `write`, which must be one CBOR item.
    pub fn item(&mut self, key: u32, write: impl FnOnce(&mut Encoder<Vec<u8>>)) -> &mut Self {
        write(self.key(key));
        self
    }

    /// Adds an array of byte strings.
    pub fn array_of_bytes<B: AsRef<[u8]>>(&mut self, key: u32, values: &[B]) -> &mut Self {
        self.item(key, |e| {
            e.array(values.len() as u64).expect(NEVER);
            for value in values {
                e.bytes(value.as_ref()).expect(NEVER);
            }
        })
    }

    /// Adds an array of texts.
    pub fn array_of_texts<S: AsRef<str>>(&mut self, key: u32, values: &[S]) -> &mut Self {
        self.item(key, |e| {
            e.array(values.len() as u64).expect(NEVER);
            for value in values {
                e.str(value.as_ref()).expect(NEVER);
            }
        })
    }

    /// Adds entries that were preserved from an object of a newer version.
    pub fn extra(&mut self, extra: &Extra) -> &mut Self {
        for (key, value) in extra {
            let e = self.key(*key);
            e.writer_mut().extend_from_slice(value);
        }
        self
    }

    /// Appends the finished map to `out`.
    pub fn finish_into(self, out: &mut Vec<u8>) {
        Encoder::new(&mut *out).map(self.count).expect(NEVER);
        out.extend_from_slice(self.body.writer());
    }

    /// Returns the finished map.
    pub fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.writer().len() + 9);
        self.finish_into(&mut out);
        out
    }
}

impl Default for MapWriter {
    fn default() -> Self {
        MapWriter::new()
    }
}

/// Converts an error of the CBOR decoder.
pub(crate) fn malformed(error: minicbor::decode::Error) -> Error {
    Error::corrupt("", format!("malformed metadata: {error}"))
}

/// Decodes one map, calling `field` for each entry. `field` returns `true` if it knows the key, and
/// has consumed the value in that case. Returns the unknown entries.
///
/// # Errors
///
/// Returns a `Corrupt` error if the map is malformed or its keys do not rise, any error of `field`,
/// and `Unsupported` for an unknown key below [`KEY_OPTIONAL_MIN`].
pub fn read_map<'b>(
    d: &mut Decoder<'b>,
    mut field: impl FnMut(u32, &mut Decoder<'b>) -> Result<bool>,
) -> Result<Extra> {
    let count = d
        .map()
        .map_err(malformed)?
        .ok_or_else(|| Error::corrupt("", "malformed metadata: map of indefinite length"))?;
    let mut extra = Extra::new();
    let mut key_last = None;
    for _ in 0..count {
        let key = d.u32().map_err(malformed)?;
        // Rising keys make the encoding unique and a repeated key impossible.
        if key_last.is_some_and(|last| last >= key) {
            return Err(Error::corrupt("", format!("malformed metadata: key {key} out of order")));
        }
        key_last = Some(key);
        if field(key, d)? {
            continue;
        }
        if key < KEY_OPTIONAL_MIN {
            return Err(Error::new(
                Kind::Unsupported,
                "",
                format!("unknown key {key}; a newer cutpoint is required"),
            ));
        }
        let start = d.position();
        skip(d, DEPTH_MAX)?;
        extra.push((key, d.input()[start..d.position()].to_vec()));
    }
    Ok(extra)
}

/// Skips one item, at most `depth` levels deep, because untrusted data must not exhaust the stack.
fn skip(d: &mut Decoder<'_>, depth: usize) -> Result<()> {
    let too_deep = || Error::corrupt("", "malformed metadata: nested too deep");
    match d.datatype().map_err(malformed)? {
        Type::Array => {
            let count = d.array().map_err(malformed)?.ok_or_else(too_deep)?;
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            for _ in 0..count {
                skip(d, depth)?;
            }
            Ok(())
        }
        Type::Map => {
            let count = d.map().map_err(malformed)?.ok_or_else(too_deep)?;
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            for _ in 0..count {
                skip(d, depth)?;
                skip(d, depth)?;
            }
            Ok(())
        }
        Type::ArrayIndef | Type::MapIndef | Type::Tag => Err(too_deep()),
        _ => d.skip().map_err(malformed),
    }
}

/// Decodes an array, each element by `element`. The claimed length does not determine any
/// allocation.
pub fn read_array<'b, T>(
    d: &mut Decoder<'b>,
    mut element: impl FnMut(&mut Decoder<'b>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = d
        .array()
        .map_err(malformed)?
        .ok_or_else(|| Error::corrupt("", "malformed metadata: array of indefinite length"))?;
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(element(d)?);
    }
    Ok(values)
}

/// Decodes a byte string of exactly `N` bytes.
pub fn read_fixed<const N: usize>(d: &mut Decoder<'_>) -> Result<[u8; N]> {
    let bytes = d.bytes().map_err(malformed)?;
    bytes.try_into().map_err(|_| {
        Error::corrupt("", format!("malformed metadata: {} bytes (expected {N})", bytes.len()))
    })
}

/// Returns a required field, or an error if the field is absent.
pub fn required<T>(field: Option<T>, name: &str) -> Result<T> {
    field.ok_or_else(|| Error::corrupt("", format!("malformed metadata: missing {name}")))
}

/// Checks that no bytes follow.
pub fn at_end(d: &Decoder<'_>) -> Result<()> {
    if d.position() == d.input().len() {
        Ok(())
    } else {
        Err(Error::corrupt("", "malformed metadata: trailing bytes"))
    }
}
