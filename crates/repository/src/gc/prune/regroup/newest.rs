//! The first part of regrouping: what the newest snapshots need, in the order of their streams.

use std::collections::BTreeMap;

use cutpoint_storage::Result;

use super::mover::Mover;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::gc::prune::source::readable;
use crate::gc::prune::survey::Survey;
use crate::snapshots::mark::{Node, enter};
use crate::util::cache::TwoGenerationCache;

/// A host and the sources of its snapshot.
type Origin<'a> = (&'a str, &'a [Vec<u8>]);

/// Stores what the newest snapshot of each host and set of sources needs, in the order of its
/// streams.
pub(super) fn move_newest(mover: &mut Mover<'_>, survey: &Survey) -> Result<()> {
    let mut newest: BTreeMap<Origin<'_>, (i64, TicketId)> = BTreeMap::new();
    let snapshot = |id| survey.view.commits.get(id).and_then(|commit| commit.snapshot());
    for id in &survey.marked {
        let Some(commit) = survey.view.commits.get(id) else { continue };
        let Some(snapshot) = commit.snapshot() else { continue };
        let age = (commit.time_ns, *id);
        let of_source = newest.entry((&snapshot.host, &snapshot.sources)).or_insert(age);
        *of_source = age.max(*of_source);
    }
    let mut newest: Vec<(i64, TicketId)> = newest.into_values().collect();
    newest.sort_unstable_by_key(|age| std::cmp::Reverse(*age));
    let mut roots = newest.iter().filter_map(|(_, id)| snapshot(id));
    let mut seen = TwoGenerationCache::default();
    roots.try_for_each(|snapshot| move_tree(mover, &snapshot.root, &mut seen))
}

/// Stores the chunks of the tree `root` in the order of its stream, except for nodes in `seen`.
fn move_tree(
    mover: &mut Mover<'_>,
    root: &Content,
    seen: &mut TwoGenerationCache<()>,
) -> Result<()> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut named: Vec<Fingerprint> = Vec::new();
    let mut data = |fingerprint: &Fingerprint, _, _| {
        named.push(*fingerprint);
        Ok(())
    };
    enter(root, true, &mut nodes, &mut data)?;
    while let Some(node) = nodes.pop() {
        if seen.get(&node.key()).is_some() {
            continue;
        }
        seen.put(node.key(), ());
        let fingerprint = node.fingerprint();
        mover.move_chunk(Class::Meta, &fingerprint, false)?;
        let bytes = readable(mover.sources.chunk(Class::Meta, &fingerprint))?;
        let Some(bytes) = bytes else { continue };
        let first = nodes.len();
        if let Some(inside) = readable(mover.sources.decode(&node, &bytes))? {
            let mut data = |fingerprint: &Fingerprint, _, _| {
                named.push(*fingerprint);
                Ok(())
            };
            inside.enter(&node, &mut nodes, &mut data)?;
        }
        // Reversed because the last node on the stack comes first.
        nodes[first..].reverse();
        for fingerprint in named.drain(..) {
            mover.move_chunk(Class::Data, &fingerprint, false)?;
        }
    }
    Ok(())
}
