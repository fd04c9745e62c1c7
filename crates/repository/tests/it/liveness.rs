//! Liveness: no other client ends a writer that renews its ticket, however wrong clocks, host names
//! and boot ids are. A dead writer is ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, init, open, restore_all, unlock};
use crate::support::far::Far;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::ticket::Ticket;
use cutpoint_repository::repo::liveness::{AtWork, machine_value, others_at_work};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::{
    CommitResult, ObjectName, Purpose, Repository, RepositoryId, TicketId, Writer,
};
use cutpoint_storage::{Environment, Fault, Faulty, Kind, Memory, Process, Result, Storage};
use cutpoint_testing::SplitMix64;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

/// The true time, the storage that stamps by it, and the running processes.
#[derive(Debug)]
struct World {
    now_ns: AtomicU64,
    memory: Arc<Memory>,
    /// The boot id and the number of each running process.
    running: Mutex<BTreeSet<(String, u32)>>,
}

impl World {
    fn new() -> Arc<World> {
        let memory = Arc::new(Memory::new());
        init(memory.clone()).expect("an empty memory takes a repository");
        let running = Mutex::default();
        Arc::new(World { now_ns: AtomicU64::new(1 << 60), memory, running })
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(self.now_ns.load(Ordering::SeqCst)).expect("a time of this century")
    }

    fn pass(&self, ns: i64) {
        self.now_ns.fetch_add(ns.unsigned_abs(), Ordering::SeqCst);
        self.memory.shift_clock(ns);
    }

    fn is_ended(&self, ticket: TicketId) -> bool {
        let name = ObjectName::Commit(ticket).to_string();
        self.memory.head(&name).expect("memory answers").is_some()
    }
}

/// A machine between two starts.
#[derive(Clone, Debug)]
struct Boot {
    world: Arc<World>,
    host: &'static str,
    /// `None` for a machine without `/etc/machine-id`.
    machine: Option<u8>,
    id: String,
    booted_ns: i64,
}

impl Boot {
    fn new(world: &Arc<World>, machine: Option<u8>, id: &str) -> Boot {
        let (world, id, booted_ns) = (world.clone(), id.to_owned(), world.now_ns());
        Boot { world, host: "localhost", machine, id, booted_ns }
    }

    /// Starts a process whose wall clock is wrong by `skew_ns`.
    fn start(&self, process: u32, skew_ns: i64) -> Client {
        let key = (self.id.clone(), process);
        self.world.running.lock().expect("no panics").insert(key);
        let seed = u64::from(process) * 7919 + self.id.bytes().map(u64::from).sum::<u64>();
        let place = Arc::new(Place {
            boot: self.clone(),
            process,
            skew_ns: AtomicI64::new(skew_ns),
            random: Mutex::new(SplitMix64::new(seed)),
        });
        Client { place }
    }
}

/// Clock, randomness and identity of one process.
#[derive(Debug)]
struct Place {
    boot: Boot,
    process: u32,
    skew_ns: AtomicI64,
    random: Mutex<SplitMix64>,
}

impl Environment for Place {
    fn now_ns(&self) -> i64 {
        self.boot.world.now_ns() + self.skew_ns.load(Ordering::SeqCst)
    }

    fn elapsed_ns(&self) -> u64 {
        self.boot.world.now_ns().unsigned_abs()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.random.lock().expect("no panics").take(bytes.len()));
        Ok(())
    }

    fn process(&self) -> Process {
        Process {
            host: self.boot.host.to_owned(),
            boot_id: self.boot.id.clone(),
            namespace: "pid".to_owned(),
            process_id: self.process,
            started: 1,
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        self.boot.machine.map(|machine| [machine; 16])
    }

    fn since_boot_ns(&self) -> Option<u64> {
        Some((self.boot.world.now_ns() - self.boot.booted_ns).unsigned_abs())
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        let key = (other.boot_id.clone(), other.process_id);
        let running = self.boot.world.running.lock().expect("no panics");
        other.boot_id != self.boot.id || running.contains(&key)
    }
}

/// A running process.
#[derive(Debug)]
struct Client {
    place: Arc<Place>,
}

impl Client {
    fn repository_on(&self, storage: Arc<dyn Storage>) -> Arc<Repository> {
        let environment: Arc<dyn Environment> = self.place.clone();
        Arc::new(Repository::open(storage, environment, &unlock()).expect("it opens"))
    }

    fn repository(&self) -> Arc<Repository> {
        self.repository_on(self.place.boot.world.memory.clone())
    }

    fn begin(&self) -> Writer {
        Writer::begin(self.repository(), Purpose::Backup).expect("it begins")
    }

    /// Begins a writer, ends it at once, and returns the writers that it has ended.
    fn ended(&self) -> Vec<TicketId> {
        let mut writer = self.begin();
        writer.void(Vec::new()).expect("memory takes it");
        writer.ended().to_vec()
    }

    /// Kills the process at any point.
    fn kill(&self) {
        let key = (self.place.boot.id.clone(), self.place.process);
        self.place.boot.world.running.lock().expect("no panics").remove(&key);
    }
}

#[test]
fn writer_of_other_machine_with_same_name_lives() {
    let world = World::new();
    for (number, machines) in [(0, (Some(1), Some(2))), (10, (None, None)), (20, (Some(1), None))] {
        let one = Boot::new(&world, machines.0, &format!("one {number}"));
        let live = one.start(1, 0).begin();
        // Another boot id, where no process has that number.
        world.pass(HOUR_NS);
        let other = Boot::new(&world, machines.1, &format!("other {number}")).start(2, 0);
        assert_eq!(other.ended(), [], "{machines:?}: it runs elsewhere");
        assert!(!world.is_ended(live.ticket()), "{machines:?}");
        world.pass(25 * HOUR_NS);
        assert_eq!(other.ended(), [live.ticket()], "{machines:?}: silent for a day");
    }
}

#[test]
fn process_without_machine_value_is_ended_only_after_a_day() {
    let world = World::new();
    let boot = Boot::new(&world, None, "a");
    let dead = boot.start(1, 0);
    let ticket = dead.begin().ticket();
    dead.kill();
    let next = boot.start(2, 0);
    assert_eq!(next.ended(), [], "a boot id alone says nothing");
    world.pass(23 * HOUR_NS);
    assert_eq!(next.ended(), [], "not yet");
    world.pass(2 * HOUR_NS);
    assert_eq!(next.ended(), [ticket], "silent for a day");
}

#[test]
fn process_of_this_boot_that_is_gone_is_ended_at_once() {
    let world = World::new();
    let boot = Boot::new(&world, Some(1), "a");
    let (live, dead) = (boot.start(1, 0), boot.start(2, 0));
    let (live, ended) = (live.begin(), dead.begin().ticket());
    dead.kill();
    assert_eq!(boot.start(3, 0).ended(), [ended], "it is gone");
    assert!(!world.is_ended(live.ticket()), "the other runs");
}

/// On a storage whose listings show stamps, a client that begins reads no ticket of a writer that
/// began a moment before.
#[test]
fn young_writer_is_examined_once_it_is_older() {
    let world = World::new();
    let boot = Boot::new(&world, Some(1), "a");
    let below: Arc<dyn Storage> = world.memory.clone();
    let far = Far::over(&below);
    let reads = || far.take_rounds(|name| name.starts_with("tickets/")).concat().len();
    let ended = |client: &Client| {
        let repository = client.repository_on(far.clone());
        let mut writer = Writer::begin(repository, Purpose::Backup).expect("it begins");
        writer.void(Vec::new()).expect("memory takes it");
        writer.ended().to_vec()
    };
    let (live, dead) = (boot.start(1, 0), boot.start(2, 0));
    let (live, ticket) = (live.begin(), dead.begin().ticket());
    dead.kill();
    world.pass(50 * SECOND_NS);
    assert_eq!((ended(&boot.start(3, 0)), reads()), (Vec::new(), 0), "both are young");
    world.pass(20 * SECOND_NS);
    assert_eq!((ended(&boot.start(4, 0)), reads()), (vec![ticket], 2), "each is read once");
    assert!(!world.is_ended(live.ticket()), "the other runs");

    // The newest renewal of a writer is young, but not the writer.
    let old = boot.start(5, 0);
    let mut writer = old.begin();
    world.pass(2 * HOUR_NS);
    writer.renew().expect("memory takes it");
    old.kill();
    let found = ended(&boot.start(6, 0));
    assert!(found.contains(&writer.ticket()), "{found:?}");
}

/// Two machines with one machine id, such as copies of a virtual machine.
fn clone_is_ended() -> bool {
    let world = World::new();
    let first = Boot::new(&world, Some(1), "first").start(1, 0);
    world.pass(HOUR_NS / 2);
    let second = Boot::new(&world, Some(1), "second").start(2, 0);
    world.pass(60 * SECOND_NS);
    // Renewed after the second machine has started.
    let mut live = first.begin();
    let mut ended = second.ended();
    for _ in 0..5 {
        world.pass(HOUR_NS);
        live.renew().expect("memory takes it");
        world.pass(HOUR_NS / 2);
        ended.extend(second.ended());
    }
    ended.contains(&live.ticket())
}

#[test]
fn clone_that_renews_after_this_boot_lives() {
    assert!(!clone_is_ended(), "by the storage's stamps it renewed since");
    rules::activate(Some(Mutant::TrustsBoots));
    let caught = clone_is_ended();
    rules::activate(None);
    assert!(caught, "another boot alone says nothing");
}

#[test]
fn writer_of_earlier_boot_is_ended_at_once() {
    let world = World::new();
    // The clock of the machine that starts is wrong, too.
    for (at, skew_ns) in [(1, 0), (2, 40 * DAY_NS), (3, -40 * DAY_NS)] {
        let before = Boot::new(&world, Some(1), &format!("before {at}"));
        let dead = before.start(1, 0).begin().ticket();
        world.pass(60 * SECOND_NS);
        let after = Boot::new(&world, Some(1), &format!("after {at}"));
        world.pass(20 * SECOND_NS);
        assert_eq!(after.start(1, skew_ns).ended(), [dead], "{skew_ns}");
    }
}

/// Clocks that are wrong by more than a day, in either direction, including that of the storage.
fn wrong_clock_ends(skews: [i64; 2]) -> bool {
    let world = World::new();
    world.memory.shift_clock(-17 * DAY_NS);
    let one = Boot::new(&world, Some(1), "one").start(1, skews[0]);
    let other = Boot::new(&world, Some(2), "other").start(2, skews[1]);
    let live = one.begin();
    world.pass(HOUR_NS);
    other.ended().contains(&live.ticket())
}

#[test]
fn wrong_clock_of_client_ends_no_other() {
    let skews = [[-25 * HOUR_NS, 0], [0, 25 * HOUR_NS], [-40 * DAY_NS, 40 * DAY_NS]];
    for skews in skews {
        assert!(!wrong_clock_ends(skews), "{skews:?}");
    }
    rules::activate(Some(Mutant::TrustsClocks));
    let caught = skews.map(wrong_clock_ends);
    rules::activate(None);
    assert_eq!(caught, [true; 3], "clocks of clients say nothing");
}

/// The clock of a client jumps while the client waits for other writers to end.
#[test]
fn clock_that_jumps_ends_no_other() {
    let world = World::new();
    let one = Boot::new(&world, Some(1), "one").start(1, 0);
    let other = Boot::new(&world, Some(2), "other").start(2, 0);
    let mut live = one.begin();
    for skew_ns in [40 * DAY_NS, -40 * DAY_NS, 0] {
        world.pass(HOUR_NS);
        one.place.skew_ns.store(-skew_ns, Ordering::SeqCst);
        live.renew().expect("memory takes it");
        other.place.skew_ns.store(skew_ns, Ordering::SeqCst);
        assert_eq!(other.ended(), [], "{skew_ns}");
    }
}

/// A storage with random stamps: live writers may be ended, and nothing is lost by that.
#[test]
fn wrong_stamps_cost_only_restarts() {
    let mut ended_count = 0;
    for seed in 0..6 {
        let world = World::new();
        let storage: Arc<dyn Storage> =
            Arc::new(Faulty::new(world.memory.clone(), Fault::WrongStamps(seed)));
        let one = Boot::new(&world, Some(1), "one").start(1, 0).repository_on(storage.clone());
        let other = Boot::new(&world, Some(2), "other").start(2, 0).repository_on(storage);
        for number in 0..4 {
            let mut live = Writer::begin(one.clone(), Purpose::Other).expect("it begins");
            back_up(&other, &[seed, number], true).expect("memory takes it");
            let outcome = Outcome::Forget(Vec::new());
            let done = live.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it ends");
            ended_count += usize::from(done == CommitResult::Ended);
        }
        assert_eq!(restore_all(&one).expect("it is read"), 4, "seed {seed}");
    }
    assert!(ended_count > 3, "wrong stamps have ended writers: {ended_count}");
}

// ---------------------------------------------------------------------------------------------
// Random histories.

/// One history: machines, clients that begin, renew and are killed, and machines that restart, with
/// jumping clocks that are wrong by up to 40 days. Returns an error if a live writer was ended or a
/// dead one was not.
fn run(seed: u64) -> Result<(usize, usize), String> {
    let world = World::new();
    let mut random = SplitMix64::new(seed);
    let skew = |random: &mut SplitMix64| (random.below(81) as i64 - 40) * DAY_NS;
    let mut boots: Vec<Boot> =
        (0..3).map(|machine| Boot::new(&world, Some(machine), &format!("{machine}.0"))).collect();
    let mut live: Vec<(usize, Client, Writer)> = Vec::new();
    // Each with the time of death.
    let mut dead: Vec<(TicketId, i64)> = Vec::new();
    let (mut begun_count, mut ended_count) = (0, 0);
    for step in 0..120_u32 {
        world.pass(random.below(20 * 60) as i64 * SECOND_NS + 6 * SECOND_NS);
        for (_, client, writer) in &mut live {
            if random.below(4) == 0 {
                client.place.skew_ns.store(skew(&mut random), Ordering::SeqCst);
            }
            writer.renew().map_err(|error| error.to_string())?;
        }
        let machine = random.below(boots.len());
        match random.below(6) {
            0 if !live.is_empty() => {
                let (_, client, writer) = live.swap_remove(random.below(live.len()));
                client.kill();
                dead.push((writer.ticket(), world.now_ns()));
            }
            1 if random.below(3) == 0 => {
                boots[machine] = Boot::new(
                    &world,
                    Some(u8::try_from(machine).unwrap_or(0)),
                    &format!("{machine}.{step}"),
                );
                let (killed, left) = live.into_iter().partition(|(of, ..)| *of == machine);
                live = left;
                let killed: Vec<(usize, Client, Writer)> = killed;
                for (_, client, writer) in killed {
                    client.kill();
                    dead.push((writer.ticket(), world.now_ns()));
                }
            }
            _ => {
                let client = boots[machine].start(step, skew(&mut random));
                let writer = client.begin();
                begun_count += 1;
                ended_count += writer.ended().len();
                for (_, other, writer) in &live {
                    if world.is_ended(writer.ticket()) {
                        let place = &other.place;
                        return Err(format!(
                            "step {step}: {} of {} is ended, and lives",
                            place.process, place.boot.id
                        ));
                    }
                }
                if let Some((ticket, _)) = dead.iter().find(|(ticket, died_ns)| {
                    world.now_ns() - died_ns > 25 * HOUR_NS && !world.is_ended(*ticket)
                }) {
                    return Err(format!("step {step}: {ticket} is dead, and not ended"));
                }
                if live.len() < 4 {
                    live.push((machine, client, writer));
                } else {
                    client.kill();
                    dead.push((writer.ticket(), world.now_ns()));
                }
            }
        }
    }
    Ok((begun_count, ended_count))
}

#[test]
fn live_writers_are_never_ended_and_dead_ones_are() {
    let (mut begun_count, mut ended_count) = (0, 0);
    for seed in 0..20 {
        let (begun, ended) = run(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        begun_count += begun;
        ended_count += ended;
    }
    assert!(ended_count * 2 > begun_count, "of {begun_count} begun, {ended_count} were ended");
    rules::activate(Some(Mutant::TrustsClocks));
    let caught = (0..20).find_map(|seed| run(seed).err());
    rules::activate(None);
    assert!(caught.is_some_and(|failure| failure.contains("and lives")), "a mutant is caught");
}

// ---------------------------------------------------------------------------------------------
// Exclusive clients.

fn at_work(client: &Client) -> Vec<AtWork> {
    others_at_work(&client.repository(), None).expect("memory answers")
}

#[test]
fn client_that_wants_to_be_alone_refuses_others() {
    let world = World::new();
    let one = Boot::new(&world, Some(1), "one").start(1, -40 * DAY_NS);
    let alone = Boot::new(&world, Some(2), "two").start(2, 40 * DAY_NS);
    let begin_alone = || Writer::begin_alone(alone.repository(), Purpose::Prune);
    assert_eq!(at_work(&alone), [], "no other client");
    begin_alone().expect("alone").void(Vec::new()).expect("memory takes it");

    let other = one.begin();
    world.pass(2 * HOUR_NS);
    let found = at_work(&alone);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].ticket, other.ticket(), "{found:?}");
    let age_ns = found[0].age_ns.expect("memory has stamps");
    assert!((age_ns - 2 * HOUR_NS).abs() < 60 * SECOND_NS, "{age_ns}");
    let error = begin_alone().expect_err("another is at work");
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    let text = error.to_string();
    for part in [&other.ticket().to_string(), "process 1 of host \"localhost\"", "120 min ago"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!world.is_ended(other.ticket()), "it goes on");
    assert_eq!(at_work(&one).len(), 1, "the refused one has ended its own ticket: {text}");
    world.pass(HOUR_NS + 60 * SECOND_NS);
    assert_eq!(at_work(&alone), [], "silent for too long");
    begin_alone().expect("as if alone");
}

#[test]
fn dead_writers_do_not_stop_a_client_that_is_alone() {
    let world = World::new();
    let boot = Boot::new(&world, Some(1), "one");
    let dead = boot.start(1, 0);
    let ticket = dead.begin().ticket();
    dead.kill();
    let alone = boot.start(2, 0);
    assert_eq!(at_work(&alone), [], "it is known to be dead");
    let writer = Writer::begin_alone(alone.repository(), Purpose::Prune).expect("it is alone");
    assert_eq!(writer.ended(), [ticket], "and ended");
}

#[test]
fn machine_value_is_specific_to_a_repository() {
    let value =
        |machine: u8, repository: u8| machine_value(&[machine; 16], RepositoryId([repository; 16]));
    assert_eq!(value(1, 1), value(1, 1), "it stays");
    assert!(value(1, 1) != value(2, 1) && value(1, 1) != value(1, 2), "of both");
    // Fixed here, so that the value does not change by accident.
    assert_eq!(format!("{:?}", value(1, 2)), "cfc5fe29c35e6e5197e4f58d7a78f912", "the value");
    let repository = open(World::new().memory.clone(), 1).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    let name = ObjectName::Ticket { ticket: writer.ticket(), renewal: 0 };
    let ticket = Ticket::decode(&repository.get(name).expect("it is read")).expect("a ticket");
    let expected = machine_value(&[1; 16], repository.keys().repository());
    assert_eq!(ticket.machine, Some(expected), "what a ticket has");
}
