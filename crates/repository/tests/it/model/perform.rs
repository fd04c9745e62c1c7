//! The effect of each step on the repository, and on the model.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::{Repository, Unlock, View};
use cutpoint_storage::{Fault, Faulty, Kind, Result, Storage};

use super::change::Change;
use super::expected::{Model, seen};
use super::place::{MINUTE_NS, Place, key};
use super::tally::Tally;
use crate::model::steps::{Move, SECRETS, Step};
use crate::support::overtaken::{OvertakenStorage, When};

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) result: Result<()>,
    /// The possible contents of the repository: the result of the step, or after a failure also the
    /// content before.
    pub(crate) allowed: Vec<Model>,
    pub(crate) tally: Tally,
}

/// Makes a move on a storage that fails as the move says.
pub(crate) fn perform(next: &Move, place: &Place, model: &Model) -> Done {
    let faulty: Arc<dyn Storage> = match next.fault {
        Fault::None => place.storage.clone(),
        fault => Arc::new(Faulty::new(place.storage.clone(), fault)),
    };
    if next.others.is_empty() {
        return act(&next.step, place, &faulty, model);
    }
    // The other processes have smaller numbers, so they do not take this one for dead.
    let others = u32::try_from(next.others.len()).expect("they are few");
    let own = Place { process: place.process + others, ..place.clone() };
    let met: Arc<Mutex<Option<(Model, Tally)>>> = Arc::default();
    let meddle = {
        let (met, place, others) = (met.clone(), place.clone(), next.others.clone());
        let mut model = model.clone();
        move || {
            let mut tally = Tally::default();
            for (step, number) in others.iter().zip(0..) {
                // Later than the times of the previous process.
                let clock_ns = place.clock_ns + u64::from(number) * MINUTE_NS;
                let process = place.process + number;
                let place = Place { process, clock_ns, ..place.clone() };
                let done = act(step, &place, &place.storage, &model);
                tally.add(&done.tally);
                model = settle(done.allowed, &place);
            }
            *met.lock().unwrap_or_else(PoisonError::into_inner) = Some((model, tally));
        }
    };
    let storage = OvertakenStorage::new(faulty, When::BeforePut("commits/"), meddle);
    let mut done = act(&next.step, &own, &(storage as Arc<dyn Storage>), model);
    let met = met.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((met, tally)) = met {
        done.tally.add(&tally);
        // A backup adds its snapshot to every possible content.
        for allowed in &mut done.allowed {
            let new = allowed.snapshots.iter().filter(|(id, _)| !model.snapshots.contains_key(id));
            let new: Vec<_> = new.map(|(id, kept)| (*id, kept.clone())).collect();
            *allowed = met.clone();
            allowed.snapshots.extend(new);
        }
    }
    done
}

/// Returns the model that the repository agrees with.
pub(crate) fn settle(allowed: Vec<Model>, place: &Place) -> Model {
    let repository = place.look(&allowed[0]);
    let view = View::list(&repository).expect("memory lists");
    let seen = seen(&view);
    let differences = |model: &Model| -> Vec<String> {
        let expected = model.expected();
        let ids: BTreeSet<_> = seen.keys().chain(expected.keys()).collect();
        let differ = ids.into_iter().filter(|id| seen.get(*id) != expected.get(*id));
        differ.map(|id| format!("{id}: {:?}, not {:?}", seen.get(id), expected.get(id))).collect()
    };
    let told: Vec<_> = allowed.iter().map(differences).collect();
    let found = allowed.into_iter().zip(&told).find(|(_, differences)| differences.is_empty());
    found.unwrap_or_else(|| panic!("the lists show something else: {told:#?}")).0
}

pub(super) fn act(step: &Step, place: &Place, storage: &Arc<dyn Storage>, model: &Model) -> Done {
    let mut after = model.clone();
    let mut tally = Tally::default();
    let mut acts = || -> Result<()> {
        let mut repository = place.open(storage.clone(), model)?;
        if change_keys(step, &mut repository, place, &mut after)? {
            return Ok(());
        }
        let repository = Arc::new(repository);
        let (after, tally) = (&mut after, &mut tally);
        Change { repository: &repository, place, after, tally }.run(step)
    };
    let result = acts();
    if let Err(error) = &result {
        let is_excused = Arc::ptr_eq(storage, &place.storage).then_some(model.is_harmed);
        assert!(is_excused != Some(false), "{step:?} fails, and nothing is wrong: {error}");
    }
    let mut allowed = vec![after];
    if result.is_err() {
        allowed.push(model.clone());
    }
    Done { result, allowed, tally }
}

/// Carries out a step that concerns keys or settings. Returns `true` if `step` is one.
fn change_keys(
    step: &Step,
    repository: &mut Repository,
    place: &Place,
    after: &mut Model,
) -> Result<bool> {
    let before = after.secrets.clone();
    let ids = |secret: u8| -> Vec<[u8; 16]> {
        let opened = place.open_with(place.storage.clone(), secret);
        opened.ok().and_then(|repository| repository.key_id()).into_iter().collect()
    };
    let result = match step {
        Step::AddKey(secret) if !before.contains(secret) => {
            after.secrets.insert(*secret);
            repository.add_key(&key(*secret), "").map(drop)
        }
        Step::RemoveKey(secret) if before.len() > 1 && before.contains(secret) => {
            after.secrets.remove(secret);
            ids(*secret).into_iter().try_for_each(|id| repository.remove_key(id, true))
        }
        Step::ReplaceKey(old, new) if before.contains(old) && !before.contains(new) => {
            after.secrets.remove(old);
            after.secrets.insert(*new);
            ids(*old)
                .into_iter()
                .try_for_each(|id| repository.replace_key(id, &key(*new)).map(drop))
        }
        Step::Rotate(secrets) => {
            let kept: BTreeSet<u8> =
                secrets.iter().copied().filter(|s| before.contains(s)).collect();
            if kept.is_empty() {
                return Ok(true);
            }
            after.secrets.clone_from(&kept);
            let kept: Vec<Unlock> = kept.into_iter().map(key).collect();
            repository.begin_epoch(&kept, OtherKeysPolicy::Remove).map(drop)
        }
        Step::Settings(level) => {
            let mut config = repository.config().clone();
            config.compression_level = *level;
            repository.set_config(config)
        }
        Step::AddKey(_) | Step::RemoveKey(_) | Step::ReplaceKey(..) => Ok(()),
        _ => return Ok(false),
    };
    let opens: BTreeSet<u8> = SECRETS
        .into_iter()
        .filter(|secret| match place.open_with(place.storage.clone(), *secret) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), Kind::WrongKey, "secret {secret}: {error}");
                false
            }
        })
        .collect();
    if result.is_ok() {
        assert_eq!(opens, after.secrets, "what opens the repository after {step:?}");
        // Settings are put again, both copies.
        after.is_half_changed &= !matches!(step, Step::Settings(_));
    } else {
        let must: BTreeSet<u8> = before.intersection(&after.secrets).copied().collect();
        let may: BTreeSet<u8> = before.union(&after.secrets).copied().collect();
        let is_allowed = opens.is_superset(&must) && opens.is_subset(&may) && !opens.is_empty();
        assert!(is_allowed, "{step:?} was cut off: {opens:?} open the repository, of {may:?}");
        // Neither model has these secrets, so the model takes those of the repository.
        (after.secrets, after.is_half_changed) = (opens, true);
    }
    result.map(|()| true)
}
