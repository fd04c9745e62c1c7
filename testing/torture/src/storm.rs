//! The phases of a run: the storm, and the final check of everything that was acknowledged.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cutpoint_testing::{S3Server, SplitMix64};

use crate::actor::{ACTS, Actor};
use crate::clock::ClockShift;
use crate::machine::Machine;
use crate::proxy::Proxy;
use crate::world::{Tally, World, add};
use crate::{Options, Storage};

/// The minimum duration of a storm after which most snapshots are deleted, because shorter storms
/// make too few different snapshots.
const DELETING_MIN: Duration = Duration::from_secs(60);

pub(crate) fn run(options: &Options) -> Result<Option<Tally>, String> {
    let folder = tempfile::Builder::new().prefix("cutpoint-torture").tempdir();
    let mut folder = folder.expect("a temporary folder");
    let path = folder.path().canonicalize().expect("the folder is there");
    let Some((repository, proxy)) = place(options, &path) else { return Ok(None) };
    let world = World {
        program: options.program.clone(),
        machines: Machine::all(&path),
        clock: ClockShift::build(&path),
        proxy,
        repository,
        saved: Mutex::default(),
        given_up: Mutex::default(),
        undisturbed: Mutex::default(),
        tally: Tally::default(),
        is_storm: AtomicBool::new(false),
        calm_count: AtomicUsize::new(0),
        failure: Mutex::default(),
        began: Instant::now(),
        duration: options.duration,
        folder: path,
    };
    let result = storm(&world, options.seed).and_then(|()| look_back(&world));
    if let Err(failure) = result {
        folder.disable_cleanup(true);
        let place = world.folder.display();
        return Err(format!("{failure}\nseed {}; the working folder stays: {place}", options.seed));
    }
    if let Some(proxy) = &world.proxy {
        add(&world.tally.requests, proxy.lies.requests.load(Ordering::Relaxed));
        add(&world.tally.lies, proxy.lies.lies.load(Ordering::Relaxed));
    }
    if !world.tally.is_enough() {
        return Err(format!("too little has happened: {}", world.tally));
    }
    Ok(Some(world.tally))
}

type Place = (Vec<(&'static str, OsString)>, Option<Proxy>);

/// Returns the environment variables with the location of the repository, and the proxy in front of
/// it. Returns `None` if there is no S3 server.
fn place(options: &Options, folder: &Path) -> Option<Place> {
    if options.storage == Storage::Folder {
        let repository = folder.join("repository").into_os_string();
        return Some((vec![("CUTPOINT_REPO", repository)], None));
    }
    let server = S3Server::shared(&options.build_folder)?;
    let address = server.endpoint.trim_start_matches("http://");
    let proxy = Proxy::start(address, options.seed).expect("a proxy starts");
    let mut variables: Vec<(&str, OsString)> =
        server.variables().into_iter().map(|(name, value)| (name, value.into())).collect();
    variables.retain(|(name, _)| *name != "AWS_ENDPOINT_URL");
    variables.push(("AWS_ENDPOINT_URL", proxy.endpoint.clone().into()));
    let name = format!("s3://{}/torture-{}-{}", server.bucket, std::process::id(), options.seed);
    variables.push(("CUTPOINT_REPO", name.into()));
    Some((variables, Some(proxy)))
}

fn storm(world: &World, seed: u64) -> Result<(), String> {
    // Small containers and regions, so that prunes have much to rewrite.
    let sizes = ["--container-size", "4M", "--region-size", "128k"];
    let mut first = Actor::new(world, ACTS.len(), 0);
    first.expect_success(&[&["init", "--encryption", "none"], &sizes[..]].concat())?;
    std::thread::scope(|scope| {
        for (number, act) in ACTS.into_iter().enumerate() {
            let mut seeds = SplitMix64::new(seed);
            let own = (0..=number).fold(0, |_, _| seeds.next());
            let mut actor = Actor::new(world, number, own);
            scope.spawn(move || {
                while !world.is_over() {
                    if let Err(failure) = act(&mut actor) {
                        world.fail(failure);
                    }
                }
            });
        }
    });
    world.failure.lock().expect("no thread panics").take().map_or(Ok(()), Err)
}

/// Checks the repository after the storm: everything that was acknowledged is there, nothing is
/// damaged, and a prune by the right clock does not change that.
fn look_back(world: &World) -> Result<(), String> {
    if let Some(proxy) = &world.proxy {
        proxy.lie(0);
    }
    world.is_storm.store(false, Ordering::Relaxed);
    let mut actor = Actor::new(world, ACTS.len(), 0);
    actor.expect_success(&["check", "--read-data"])?;
    // The run of a killed writer is ended only by its own machine, or after a day. After that,
    // everything that was condemned can be deleted.
    for number in (0..world.machines.len()).chain([0]) {
        Actor::new(world, number, 0).prune()?;
    }
    actor.expect_success(&["check", "--read-data"])?;
    let listed = actor.expect_success(&["snapshots"])?;
    let given_up = world.given_up.lock().expect("no thread panics").clone();
    let saved = world.saved.lock().expect("no thread panics").clone();
    for (id, saved) in saved.iter().filter(|(id, _)| !given_up.contains(*id)) {
        if !listed.events.iter().any(|each| each["id"].as_str() == Some(id)) {
            return Err(format!("snapshot {id} was acknowledged and is gone: {}", listed.text));
        }
        let restored = actor.restore_of(id, saved)?;
        if !restored {
            return Err(format!("snapshot {id} was acknowledged and does not restore"));
        }
    }
    if world.duration >= DELETING_MIN {
        delete_most(world, &mut actor, saved.keys().filter(|id| !given_up.contains(*id)))?;
    }
    // Shifted clocks must show in the times of the snapshots. Otherwise the shift has no effect.
    let own =
        |time: &serde_json::Value| time.as_str().map(|text| text[..10.min(text.len())].to_owned());
    let days: BTreeSet<_> = listed.events.iter().filter_map(|each| own(&each["started"])).collect();
    if world.clock.is_some() && days.len() < 2 && listed.events.len() > 3 {
        return Err(format!("no clock was shifted: {}", listed.text));
    }
    Ok(())
}

/// Forgets all snapshots except one, and checks that prunes delete the data that only the others
/// needed, and that the one is complete.
fn delete_most<'a>(
    world: &World,
    actor: &mut Actor<'_>,
    mut ids: impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    let Some(kept) = ids.next() else { return Ok(()) };
    let forgotten: Vec<&str> = ids.map(String::as_str).collect();
    actor.expect_success(&[&["forget"], &forgotten[..]].concat())?;
    let before = world.tally.deleted_bytes.load(Ordering::Relaxed);
    for number in (0..world.machines.len()).chain([0]) {
        Actor::new(world, number, 0).prune_to("0%")?;
    }
    if world.tally.deleted_bytes.load(Ordering::Relaxed) == before {
        return Err(format!("no prune deletes anything after {forgotten:?} were forgotten"));
    }
    actor.expect_success(&["check", "--read-data"])?;
    let saved = world.saved.lock().expect("no thread panics")[kept].clone();
    match actor.restore_of(kept, &saved)? {
        true => Ok(()),
        false => Err(format!("snapshot {kept} was kept and does not restore")),
    }
}
