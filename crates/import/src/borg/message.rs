//! MessagePack, in which Borg's requests, answers and metadata are.

use std::io::Read;

use cutpoint_storage::{Error, Result};
use rmpv::Value;

/// The maximum nesting of a value.
const DEPTH_MAX: usize = 32;

/// Returns the error of a value of another form than expected.
pub(super) fn malformed(what: &str) -> Error {
    Error::corrupt("", format!("malformed: {what}"))
}

/// Decodes one value. What is allocated follows from the bytes that come.
///
/// # Errors
///
/// Returns `Corrupt` if the bytes are no value, or end before it does.
pub(super) fn decode(mut bytes: &[u8]) -> Result<Value> {
    rmpv::decode::read_value_with_max_depth(&mut bytes, DEPTH_MAX)
        .map_err(|error| malformed(&error.to_string()))
}

/// Decodes the value at the beginning of `bytes`. Returns it and its length; `None` if the bytes end
/// before the value does.
///
/// # Errors
///
/// Returns `Corrupt` if the bytes are no value.
pub(super) fn decode_first(bytes: &[u8]) -> Result<Option<(Value, usize)>> {
    let mut rest = bytes;
    match rmpv::decode::read_value_with_max_depth(&mut rest, DEPTH_MAX) {
        Ok(value) => Ok(Some((value, bytes.len() - rest.len()))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(malformed(&error.to_string())),
    }
}

/// Reads one value.
pub(super) fn read(reader: &mut impl Read) -> std::io::Result<Value> {
    rmpv::decode::read_value_with_max_depth(reader, DEPTH_MAX).map_err(|error| match error {
        rmpv::decode::Error::InvalidMarkerRead(error)
        | rmpv::decode::Error::InvalidDataRead(error) => error,
        error => std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()),
    })
}

/// Returns the value of a key in a map.
pub(super) fn get<'v>(map: &'v Value, key: &str) -> Option<&'v Value> {
    let pairs = map.as_map()?;
    pairs.iter().find(|(name, _)| bytes(name) == Some(key.as_bytes())).map(|(_, value)| value)
}

/// Returns the bytes of a string, which need not be UTF-8, or of a binary.
pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::String(text) => Some(text.as_bytes()),
        Value::Binary(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns the bytes of a key in a map.
pub(super) fn get_bytes<'v>(map: &'v Value, key: &str) -> Option<&'v [u8]> {
    get(map, key).and_then(bytes)
}

/// Returns the text of a key in a map.
pub(super) fn get_text(map: &Value, key: &str) -> Option<String> {
    get_bytes(map, key).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Returns the number of a key in a map. Borg writes large numbers as bytes, little-endian.
pub(super) fn get_number(map: &Value, key: &str) -> Option<i64> {
    let value = get(map, key)?;
    if let Some(bytes) = bytes(value) {
        let mut number = [if bytes.last().is_some_and(|last| *last > 0x7f) { 0xff } else { 0 }; 8];
        let len = bytes.len().min(8);
        number[..len].copy_from_slice(&bytes[..len]);
        return Some(i64::from_le_bytes(number));
    }
    value.as_i64()
}

/// Encodes a value.
#[cfg(test)]
pub(super) fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).expect("a vector takes all");
    bytes
}
