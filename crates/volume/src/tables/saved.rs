//! Tables to a checkpoint and back.

use std::sync::Arc;

use super::{Catalog, Counters, Tables, Totals};
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::checkpoint::Checkpoint;
use crate::format::names;
use crate::format::position::Position;
use crate::tree::{Run, Tree, are_consistent};

impl Tables {
    /// Returns the tables as a checkpoint, without its number and runs.
    pub(crate) fn to_checkpoint(&self, position: Position) -> Checkpoint {
        let layers = self.catalog.layers.iter();
        Checkpoint {
            volume: self.core.id,
            number: 0,
            position,
            last_part: 0,
            counters: self.counters.to_array(),
            totals: self.totals.to_array(),
            next_id: self.catalog.next_id,
            catalog: self.catalog.changes(),
            used_counts: layers.map(|(id, layer)| (*id, layer.used_count)).collect(),
            live_bytes: self.live_bytes.iter().map(|(segment, len)| (*segment, *len)).collect(),
            runs: Vec::new(),
        }
    }

    /// Returns the tables of a checkpoint, and opens its runs.
    ///
    /// # Errors
    ///
    /// Fails if a run is missing or damaged, and if the catalog contradicts itself.
    pub(crate) fn of_checkpoint(core: &Arc<Core>, checkpoint: &Checkpoint) -> Result<Tables> {
        let corrupt = |problem: &str| {
            let [name, _] = names::checkpoint(checkpoint.number);
            Error::new(Kind::Corrupt, name, problem)
        };
        let runs = checkpoint.runs.iter().map(|meta| Run::open(core, meta).map(Arc::new));
        let runs: Vec<_> = runs.collect::<Result<_>>()?;
        if !are_consistent(&runs) {
            return Err(corrupt("the runs contradict each other"));
        }
        let catalog =
            catalog(checkpoint).ok_or_else(|| corrupt("the catalog contradicts itself"))?;
        let mut tables = Tables::new(Arc::clone(core), catalog.settings);
        tables.tree = Tree::new(Arc::clone(core), runs);
        tables.catalog = catalog;
        tables.counters = Counters::of_array(checkpoint.counters);
        tables.totals = Totals::of_array(checkpoint.totals);
        tables.live_bytes = checkpoint.live_bytes.iter().copied().collect();
        Ok(tables)
    }
}

/// Returns the catalog of a checkpoint, or `None` if it contradicts itself.
fn catalog(checkpoint: &Checkpoint) -> Option<Catalog> {
    use crate::format::change::Change;
    let Some(Change::Settings(settings)) = checkpoint.catalog.first() else { return None };
    let mut catalog = Catalog::new(*settings);
    checkpoint.catalog.iter().all(|change| catalog.apply(change)).then_some(())?;
    for (layer, count) in &checkpoint.used_counts {
        catalog.layers.get_mut(layer)?.used_count = *count;
    }
    (catalog.next_id <= checkpoint.next_id).then_some(())?;
    catalog.next_id = checkpoint.next_id;
    Some(catalog)
}
