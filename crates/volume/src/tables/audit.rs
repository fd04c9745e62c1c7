//! A check that the tables agree with each other.

use std::collections::{BTreeMap, HashMap};

use cutpoint_delta::burst::Side;

use super::{Form, LOST, Tables};
use crate::format::record::Seq;

impl Tables {
    /// Returns the first contradiction between the tables, if there is one.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut uses: HashMap<Seq, u64> = HashMap::new();
        for (block, seq) in self.map.iter().filter(|(_, seq)| *seq != LOST) {
            if !self.stored.contains_key(&seq) {
                return Err(format!("block {block} has the stored block {seq}, which is gone"));
            }
            *uses.entry(seq).or_default() += 1;
        }
        let mut bursts: HashMap<(Seq, Side), u64> = HashMap::new();
        let mut live_bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for (seq, stored) in &self.stored {
            *live_bytes.entry(stored.place.segment).or_default() += stored.log_len(self.block_size);
            if stored.use_count != uses.get(seq).copied().unwrap_or_default() {
                return Err(format!("stored block {seq}: {} uses", stored.use_count));
            }
            if let Form::Burst { reference, side, .. } = stored.form {
                *bursts.entry((reference, side)).or_default() += 1;
            }
        }
        if live_bytes != self.live_bytes {
            return Err(format!("live bytes {:?}, expected {live_bytes:?}", self.live_bytes));
        }
        let bursts_of = |seq, side| bursts.get(&(seq, side)).copied().unwrap_or_default();
        for (seq, stored) in &self.stored {
            let Form::Full { burst_count, .. } = stored.form else { continue };
            let expected: u64 = Side::ALL.into_iter().map(|side| bursts_of(*seq, side)).sum();
            if burst_count != expected {
                return Err(format!("stored block {seq}: {burst_count} bursts, not {expected}"));
            }
            if stored.use_count + burst_count == 0 {
                return Err(format!("stored block {seq}: not needed"));
            }
        }
        for (seq, _) in bursts.keys() {
            let reference = self.stored.get(seq).map(|stored| &stored.form);
            if !matches!(reference, Some(Form::Full { .. })) {
                return Err(format!("reference block {seq} is gone or no full block"));
            }
        }
        if let Some(seq) = self.by_fingerprint.values().find(|seq| !self.stored.contains_key(seq)) {
            return Err(format!("DT or BT has the stored block {seq}, which is gone"));
        }
        self.audit_views(bursts_of)
    }

    fn audit_views(&self, bursts_of: impl Fn(Seq, Side) -> u64) -> Result<(), String> {
        for side in Side::ALL {
            for (key, reference, burst_count) in self.views.entries(side) {
                let form = self.stored.get(&reference).map(|stored| &stored.form);
                let Some(Form::Full { keys, .. }) = form else {
                    return Err(format!("{side:?}DT has the block {reference}, which is gone"));
                };
                let expected = bursts_of(reference, side);
                if keys[side as usize] != Some(key) || u64::from(burst_count) != expected {
                    return Err(format!(
                        "{side:?}DT: block {reference} has {burst_count} bursts, not {expected}"
                    ));
                }
            }
        }
        Ok(())
    }
}
