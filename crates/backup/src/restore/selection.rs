//! The selection of paths in a snapshot.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cutpoint_storage::{Error, Result};

#[derive(Debug, Default)]
struct SelectionNode {
    /// Set if the path is selected with everything below it.
    is_selected: bool,
    found: bool,
    children: BTreeMap<Vec<u8>, usize>,
}

/// The answer of [`Selection::choose`] for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The name is not selected.
    Skip,
    /// The name is selected, with everything below it.
    All,
    /// A folder on the way to a selected path, with its node in the selection.
    Way(usize),
    /// Neither this name nor any later one in byte order is selected.
    End,
}

/// A tree of the selected paths.
#[derive(Debug)]
pub(super) struct Selection(Vec<SelectionNode>);

impl Selection {
    pub(super) fn new(paths: &[PathBuf]) -> Result<Selection> {
        let mut selection = Selection(vec![SelectionNode {
            is_selected: paths.is_empty(),
            ..SelectionNode::default()
        }]);
        for path in paths {
            let mut at = 0;
            for component in path.components() {
                let name = match component {
                    Component::Normal(name) => name.as_bytes(),
                    Component::ParentDir => {
                        let message = "a path in a snapshot cannot contain `..`";
                        return Err(Error::invalid(path.display(), message));
                    }
                    Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
                };
                at = match selection.0[at].children.get(name) {
                    Some(&child) => child,
                    None => {
                        let child = selection.0.len();
                        selection.0.push(SelectionNode::default());
                        selection.0[at].children.insert(name.to_vec(), child);
                        child
                    }
                };
            }
            selection.0[at].is_selected = true;
        }
        Ok(selection)
    }

    /// Returns the node of the root of the snapshot, or `None` if the whole snapshot is selected.
    pub(super) fn root(&self) -> Option<usize> {
        (!self.0[0].is_selected).then_some(0)
    }

    /// Decides about `name` in the folder `way`.
    pub(super) fn choose(&mut self, way: usize, name: &[u8]) -> Choice {
        let children = &self.0[way].children;
        let Some(&child) = children.get(name) else {
            let past = children.last_key_value().is_none_or(|(last, _)| last.as_slice() < name);
            return if past { Choice::End } else { Choice::Skip };
        };
        let node = &mut self.0[child];
        node.found = true;
        if node.is_selected { Choice::All } else { Choice::Way(child) }
    }

    /// Marks everything selected in the folder `way` as found, because the folder itself has been
    /// reported.
    pub(super) fn mark_found(&mut self, way: usize) {
        let mut waiting = vec![way];
        while let Some(at) = waiting.pop() {
            self.0[at].found = true;
            waiting.extend(self.0[at].children.values());
        }
    }

    /// Calls `report` with each selected path that [`Selection::choose`] was never asked about.
    pub(super) fn for_each_missing(&self, mut report: impl FnMut(&Path)) {
        if self.0[0].is_selected {
            return;
        }
        let mut waiting = vec![(0, PathBuf::new())];
        while let Some((at, path)) = waiting.pop() {
            for (name, &child) in &self.0[at].children {
                let node = &self.0[child];
                let path = path.join(std::ffi::OsStr::from_bytes(name));
                if !node.is_selected {
                    waiting.push((child, path));
                } else if !node.found {
                    report(&path);
                }
            }
        }
    }
}
