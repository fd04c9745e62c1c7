//! Tables to a checkpoint and back.

use cutpoint_delta::burst::Side;

use super::{Counters, Form, LOST, Stored, Tables};
use crate::format::VolumeId;
use crate::format::checkpoint::{Checkpoint, Form as SavedForm, Position, StoredEntry, ViewEntry};
use crate::format::record::{Seq, UNIT};

impl Tables {
    /// Returns the tables as a checkpoint.
    pub(crate) fn to_checkpoint(
        &self,
        volume: VolumeId,
        number: u64,
        position: Position,
    ) -> Checkpoint {
        let mut stored: Vec<StoredEntry> =
            self.stored.iter().map(|(seq, stored)| saved(*seq, stored)).collect();
        stored.sort_unstable_by_key(|entry| entry.seq);
        let views = Side::ALL.map(|side| {
            let entry = |(key, reference, burst_count)| ViewEntry { key, reference, burst_count };
            let mut entries: Vec<ViewEntry> = self.views.entries(side).map(entry).collect();
            entries.sort_unstable_by_key(|entry| entry.key);
            entries
        });
        Checkpoint {
            volume,
            number,
            position,
            settings: self.settings,
            counters: self.counters.to_array(),
            stored,
            views,
            map: self.map.iter().collect(),
        }
    }

    /// Returns the tables of a checkpoint, or `None` if they contradict each other.
    pub(crate) fn of_checkpoint(checkpoint: &Checkpoint, block_size: usize) -> Option<Tables> {
        let mut tables = Tables::new(block_size, checkpoint.settings);
        tables.counters = Counters::of_array(checkpoint.counters);
        for entry in &checkpoint.stored {
            tables.restore(entry, checkpoint.position.seq)?;
        }
        for (block, seq) in &checkpoint.map {
            if *seq != LOST {
                tables.stored.get_mut(seq)?.use_count += 1;
            }
            if *block >= tables.block_count() || *seq == 0 {
                return None;
            }
            tables.map.set(*block, *seq);
        }
        for (side, entries) in Side::ALL.into_iter().zip(&checkpoint.views) {
            for ViewEntry { key, reference, burst_count } in entries {
                let Form::Full { .. } = tables.stored.get(reference)?.form else { return None };
                tables.views.take_up(side, *key, *reference, *burst_count);
            }
        }
        let is_needed = |stored: &Stored| match stored.form {
            Form::Full { burst_count, .. } => stored.use_count > 0 || burst_count > 0,
            Form::Burst { .. } => stored.use_count > 0,
        };
        tables.stored.values().all(is_needed).then_some(tables)
    }

    /// Adds a stored block of a checkpoint. A reference block comes before its bursts.
    fn restore(&mut self, entry: &StoredEntry, next_seq: Seq) -> Option<()> {
        let (form, is_indexed) = match entry.form {
            SavedForm::Full { is_indexed, keys } => {
                (Form::Full { is_indexed, keys, burst_count: 0 }, is_indexed)
            }
            SavedForm::Burst { reference, side, patch } => {
                let found = self.stored.get_mut(&reference)?;
                let Form::Full { burst_count, .. } = &mut found.form else { return None };
                *burst_count += 1;
                patch.is_possible(self.block_size).then_some(())?;
                (Form::Burst { reference, side, patch }, true)
            }
        };
        let is_right = (1..next_seq).contains(&entry.seq)
            && (entry.place.offset as usize).is_multiple_of(UNIT)
            && entry.place.offset > 0;
        is_right.then_some(())?;
        self.insert(entry.seq, Stored::new(entry.place, entry.fingerprint, form), is_indexed);
        Some(())
    }
}

fn saved(seq: Seq, stored: &Stored) -> StoredEntry {
    let form = match stored.form {
        Form::Full { is_indexed, keys, .. } => SavedForm::Full { is_indexed, keys },
        Form::Burst { reference, side, patch } => SavedForm::Burst { reference, side, patch },
    };
    StoredEntry { seq, place: stored.place, fingerprint: stored.fingerprint, form }
}
