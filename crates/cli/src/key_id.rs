//! Ids of `keys/` objects as texts.

use cutpoint_repository::ObjectName;
use cutpoint_storage::ObjectKind;

/// Parses the id of a `keys/` object, 32 hexadecimal digits.
pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    match ObjectName::parse(&format!("{}/{text}", ObjectKind::Key.folder())) {
        Ok(ObjectName::Key { id, copy: false }) => Some(id),
        _ => None,
    }
}
