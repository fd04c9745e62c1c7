//! A check that the tables agree with each other.

use std::collections::{BTreeMap, HashMap};

use cutpoint_delta::burst::Side;

use super::keys::HashTable;
use super::views::EdgeEntry;
use super::{Form, LOST, Stored, Tables, Totals, ZERO, keys};
use crate::format::cursor::Cursor;
use crate::format::edge::EdgeKey;
use crate::format::position::Seq;

/// The stored blocks, and the number of bursts of each that each side has found.
struct Found {
    stored: BTreeMap<Seq, Stored>,
    bursts: HashMap<(Seq, Side), u64>,
}

impl Tables {
    /// Returns the first contradiction between the tables, if there is one.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut uses: HashMap<Seq, u64> = HashMap::new();
        let mut totals = Totals::default();
        for (layer, state) in &self.catalog.layers {
            let mut used_count = 0;
            for entry in self.own_blocks(*layer, 0..u64::MAX) {
                let (_, seq) = entry.map_err(|error| error.to_string())?;
                used_count += u64::from(seq != ZERO);
                totals.lost_count += u64::from(seq == LOST);
                *uses.entry(seq).or_default() += 1;
            }
            if used_count != state.used_count {
                return Err(format!("layer {layer}: {used_count} blocks"));
            }
        }
        uses.remove(&ZERO);
        uses.remove(&LOST);
        let mut found = Found { stored: BTreeMap::new(), bursts: HashMap::new() };
        for entry in self.all_stored() {
            let (seq, stored) = entry.map_err(|error| error.to_string())?;
            totals.count(&stored, self.core.shape.seal_len, true);
            found.stored.insert(seq, stored);
        }
        if let Some(seq) = uses.keys().find(|seq| !found.stored.contains_key(seq)) {
            return Err(format!("a block has the stored block {seq}, which is gone"));
        }
        self.audit_stored(&mut found, &uses)?;
        self.audit_hashed(&found, &mut totals)?;
        if totals != self.totals {
            return Err(format!("{:?}, expected {totals:?}", self.totals));
        }
        Ok(())
    }

    fn audit_stored(&self, found: &mut Found, uses: &HashMap<Seq, u64>) -> Result<(), String> {
        let mut dependents: HashMap<Seq, u64> = HashMap::new();
        let mut live_bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for (seq, stored) in &found.stored {
            *live_bytes.entry(stored.place.segment).or_default() += stored.log_len();
            if stored.use_count != uses.get(seq).copied().unwrap_or_default() {
                return Err(format!("stored block {seq}: {} uses", stored.use_count));
            }
            for reference in stored.references() {
                *dependents.entry(*reference).or_default() += 1;
            }
            if let Form::Burst { reference, side, .. } = stored.form {
                *found.bursts.entry((reference, side)).or_default() += 1;
            }
        }
        if live_bytes != self.live_bytes {
            return Err(format!("live bytes {:?}, expected {live_bytes:?}", self.live_bytes));
        }
        for seq in dependents.keys() {
            let reference = found.stored.get(seq).map(|stored| &stored.form);
            if !matches!(reference, Some(Form::Full { .. })) {
                return Err(format!("reference block {seq} is gone or no full block"));
            }
        }
        for (seq, stored) in &found.stored {
            let expected = dependents.get(seq).copied().unwrap_or_default();
            if let Form::Full { dependent_count, .. } = stored.form
                && dependent_count != expected
            {
                return Err(format!("stored block {seq}: {dependent_count} dependents"));
            }
            if stored.use_count + expected == 0 {
                return Err(format!("stored block {seq}: not needed"));
            }
        }
        Ok(())
    }

    fn audit_hashed(&self, found: &Found, totals: &mut Totals) -> Result<(), String> {
        let [from, to] = keys::all_hashed();
        for entry in self.tree.range(from, to) {
            let (key, value) = entry.map_err(|error| error.to_string())?;
            let value = value.ok_or("an entry without a value")?;
            let table = keys::hash_table_of(&key).ok_or("a key of no table")?;
            let seq = Cursor(&value).varint().ok_or("an entry without a stored block")?;
            let Some(stored) = found.stored.get(&seq) else {
                return Err(format!("{table:?}: stored block {seq} is gone"));
            };
            match table {
                HashTable::Fingerprints => {
                    totals.fingerprint_count += 1;
                    if keys::fingerprint(&stored.fingerprint) != key {
                        return Err(format!("DT or BT: stored block {seq} has another key"));
                    }
                }
                HashTable::Features => totals.feature_count += 1,
                HashTable::Edges(side) => {
                    totals.edge_counts[side as usize] += 1;
                    let Form::Full { keys: edges, .. } = &stored.form else {
                        return Err(format!("{side:?}DT: stored block {seq} is not full"));
                    };
                    let expected = found.bursts.get(&(seq, side)).copied().unwrap_or_default();
                    let is_own =
                        |edge: &Option<EdgeKey>| edge.map(|it| keys::edge(side, &it)) == Some(key);
                    let entry = EdgeEntry::decode(&value);
                    if !is_own(&edges[side as usize])
                        || entry != Some(EdgeEntry { reference: seq, burst_count: expected })
                    {
                        return Err(format!("{side:?}DT: {entry:?}, expected {expected} bursts"));
                    }
                }
            }
        }
        Ok(())
    }
}
