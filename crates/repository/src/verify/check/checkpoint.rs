//! Checks of the view checkpoint. Nothing depends on it, so damage is only a note; but a commit that
//! it has and that does not exist was deleted.

use bytes::Bytes;
use cutpoint_storage::{Error, ObjectKind, Result};

use super::context::{Check, Need};
use super::objects::{names, open};
use crate::crypto::claimed_view_name;
use crate::format::commit::Commit;
use crate::format::names::ObjectName;
use crate::format::prune::Prune;
use crate::format::view_part::ViewPart;
use crate::repo::view::View;

/// Checks every part: that it opens, and that the objects in it are those that exist. Adds the
/// objects in it to those that the view knows to have existed.
pub(super) fn check_parts(check: &Check<'_>, view: &mut View) -> Result<()> {
    for name in names(check, ObjectKind::View) {
        let decode = |body: &[u8]| ViewPart::decode(&Bytes::copy_from_slice(body));
        let Some(part) = open(check, name, Need::Unnamed, decode)? else { continue };
        for object in &part.objects {
            if let Err(error) = check_object(check, view, object) {
                check.report_error(name, error, Need::Unnamed)?;
                break;
            }
        }
    }
    Ok(())
}

/// Checks one object of a part.
///
/// # Errors
///
/// Returns a `Corrupt` error if the object does not open, or differs from the one that exists.
fn check_object(check: &Check<'_>, view: &mut View, object: &Bytes) -> Result<()> {
    let name = claimed_view_name(object)
        .ok_or_else(|| Error::corrupt("", "holds something else than commits and prune records"))?;
    let damaged = |error: Error| Error::corrupt("", format!("its copy of {error}"));
    let is_equal = match name {
        ObjectName::Commit(ticket) => {
            let (_, copy) =
                check.repository.open_bytes(name, object, Commit::decode).map_err(damaged)?;
            view.commits.get(&ticket).is_none_or(|commit| **commit == copy)
        }
        ObjectName::Prune(number) => {
            let (_, copy) =
                check.repository.open_bytes(name, object, Prune::decode).map_err(damaged)?;
            view.prunes.get(&number).is_none_or(|prune| **prune == copy)
        }
        _ => true,
    };
    view.attest_object(name);
    let another = || Error::corrupt("", format!("its copy of {name} has another content"));
    if is_equal { Ok(()) } else { Err(another()) }
}
