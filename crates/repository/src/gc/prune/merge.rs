//! Merges index segments.

use std::collections::{BTreeSet, HashMap, HashSet};

use cutpoint_storage::Result;

use super::survey::Survey;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::repo::repository::Repository;
use crate::write::Inline;

/// Number of hints at which a merged segment is published: 48 MB.
const MERGED_HINTS_MAX: usize = 4 << 20;

/// Publishes the contents of the `merged` segments in a few new ones. All existing containers are
/// named, condemned or not, because readers and sweeps find them by these segments.
pub(super) fn merge_segments(
    inline: &mut Inline,
    repository: &Repository,
    survey: &Survey,
    merged: &BTreeSet<PartName>,
) -> Result<()> {
    let mut named: HashSet<(Class, PartName)> = HashSet::new();
    let mut open = Segment::default();
    for part in merged {
        let segment = repository.read(ObjectName::Segment(*part), Segment::decode)?;
        let is_new = |container: &ContainerRecord| {
            let name = (container.class, container.name);
            survey.there.contains_key(&name) && named.insert(name)
        };
        let mut taken = only(&segment, is_new);
        taken.covers = vec![*part];
        open.append(&taken);
        if open.hints.len() >= MERGED_HINTS_MAX {
            inline.publish_existing(&std::mem::take(&mut open))?;
        }
    }
    if open.containers.is_empty() { Ok(()) } else { inline.publish_existing(&open) }
}

/// Returns the containers of a segment that `accepts` admits, with their hints.
fn only(segment: &Segment, mut accepts: impl FnMut(&ContainerRecord) -> bool) -> Segment {
    let mut some = Segment::default();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    // A segment counts its containers by 32 bits, and a part of it has no more.
    let accepted = (0_u32..).zip(&segment.containers).filter(|(_, container)| accepts(container));
    for (new, (number, container)) in (0_u32..).zip(accepted) {
        numbers.insert(number, new);
        some.containers.push(*container);
    }
    let hints = segment.hints.iter();
    some.hints = hints.filter_map(|(hint, number)| Some((*hint, *numbers.get(number)?))).collect();
    some
}
