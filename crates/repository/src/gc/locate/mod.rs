//! Locates the live chunks: finds, for each chunk that must stay, the container in which it stays.
//!
//! Live chunks and hints, both sorted, are merged in one pass. Hints only narrow the choice. If
//! only one container can have a live chunk, the chunk stays there. If there is a choice, tables of
//! contents decide by all 32 bytes of the fingerprint. If tables of contents cannot decide either,
//! nothing is condemned. Before anything is condemned because of hints alone, tables of contents
//! confirm them (`confirm`).
//!
//! A chunk that snapshots reach may stay in either form, preferably as a full chunk. A chunk that
//! staying delta chunks refer to must stay as a full chunk (rule C2), so tables of contents decide
//! if a container has delta chunks, too. References count by region: if any delta chunk of a region
//! stays, all references of the region must stay.
//!
//! In the order in which the files build on each other:
//!
//! - `live_set`: the live chunks, sorted, and the form that each needs ([`LiveSet`]).
//! - `container`: containers, and the records that stay in them ([`Container`]).
//! - `record`: sort records that assign a live chunk to a container.
//! - `placement`: the result ([`Placement`]).
//! - `confirm`: confirms what hints have decided ([`Placement::is_confirmed`]).
//! - `join`: the merge of live chunks and hints.
//! - `toc_search`: the search for one chunk by tables of contents.
//! - `resolve`: resolves what the merge leaves ambiguous.
//! - `delta_regions`: the references of the delta chunks that stay.
//! - `locator`: runs all of that ([`Locator::locate`]).

mod confirm;
mod container;
mod delta_regions;
mod join;
mod live_set;
mod locator;
mod placement;
mod record;
mod resolve;
mod toc_search;

pub(crate) use container::{
    Container, ContainerLens, LiveChunks, list_containers, staying, staying_numbers,
};
pub(crate) use live_set::{LIVE_CHUNK_LEN, LiveChunk, LiveSet};
pub(crate) use locator::Locator;
pub(crate) use placement::{LiveByContainer, Placement};
