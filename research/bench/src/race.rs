//! Races: contenders that take turns.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cutpoint_testing::thread_cpu_time;

use crate::{PlainRead, Samples};

/// The minimum duration of a measurement, which repeats the work until then. A shorter measurement
/// would include too much of the cost of reading the clock.
const MEASUREMENT_MIN: Duration = Duration::from_millis(1);

/// The kind of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The own code at a level of this CPU.
    Level,
    /// The form of a paper.
    Paper,
    /// The rule as its paper states it, byte by byte.
    Plain,
    /// A third-party crate.
    Peer,
}

impl Kind {
    /// Returns `level`, `paper`, `plain` or `peer`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Level => "level",
            Kind::Paper => "paper",
            Kind::Plain => "plain",
            Kind::Peer => "peer",
        }
    }
}

/// The work of a contender, which appends its results for all of the bytes.
type Work<'a, T> = Box<dyn FnMut(&[u8], &mut Vec<T>) + 'a>;

/// A way to do some work over a buffer, and its measured speeds.
pub struct Contender<'a, T> {
    kind: Kind,
    name: String,
    work: Work<'a, T>,
    speeds: Samples,
    wall_speeds: Samples,
    agrees: bool,
}

impl<'a, T> Contender<'a, T> {
    /// Creates a contender that has not run yet. `work` appends its results, for example
    /// cut-points.
    pub fn new(
        kind: Kind,
        name: impl Into<String>,
        work: impl FnMut(&[u8], &mut Vec<T>) + 'a,
    ) -> Contender<'a, T> {
        let (name, work) = (name.into(), Box::new(work));
        let (speeds, wall_speeds) = (Samples::default(), Samples::default());
        Contender { kind, name, work, speeds, wall_speeds, agrees: true }
    }

    /// Returns the kind of the contender.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name of the contender, such as `avx2`, `VRAM-256` or `crate fastcdc`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the speeds in GB (10^9 bytes) per second of CPU time, one for each round.
    pub fn speeds(&self) -> &Samples {
        &self.speeds
    }

    /// Returns the speeds in GB (10^9 bytes) per second of wall-clock time, one for each round.
    /// Other load on the machine affects these speeds.
    pub fn wall_speeds(&self) -> &Samples {
        &self.wall_speeds
    }

    /// Returns `true` if the results were those of the first contender of the comparison in every
    /// round.
    pub fn agrees(&self) -> bool {
        self.agrees
    }
}

impl<T> fmt::Debug for Contender<'_, T> {
    /// Formats the contender without its work.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("name", &self.name)
            .field("speeds", &self.speeds)
            .finish_non_exhaustive()
    }
}

/// Contenders that do the same work, and a plain read for comparison.
#[derive(Debug)]
pub struct Comparison<'a, T> {
    contenders: Vec<Contender<'a, T>>,
    read: PlainRead,
    read_speeds: Samples,
    found: Vec<T>,
    /// The results of the contender that runs.
    scratch: Vec<T>,
    /// The buffer into which each piece of the data is copied before it is worked on. Empty if the
    /// data is worked on where it is.
    buffer: Vec<u8>,
}

impl<'a, T> Comparison<'a, T> {
    /// Creates a comparison that has not run yet. All contenders should have the results of the
    /// first.
    pub fn new(contenders: Vec<Contender<'a, T>>) -> Comparison<'a, T> {
        let read = PlainRead::new();
        let (found, scratch, buffer) = (Vec::new(), Vec::new(), Vec::new());
        Comparison { contenders, read, read_speeds: Samples::default(), found, scratch, buffer }
    }

    /// Returns the comparison with fresh data: each `size` bytes of the data are copied into one
    /// buffer, and only the work on the buffer is timed. The bytes are then in the cache, as behind
    /// a read of a file, and no piece was seen before, so that the processor has not learned its
    /// branches. With a `size` of 0, the data is worked on where it is.
    #[must_use]
    pub fn fresh(self, size: usize) -> Comparison<'a, T> {
        Comparison { buffer: vec![0; size], ..self }
    }

    /// Returns the contenders, in the order in which they were given.
    pub fn contenders(&self) -> &[Contender<'a, T>] {
        &self.contenders
    }

    /// Returns the speeds of the plain read, measured like those of contenders.
    pub fn read_speeds(&self) -> &Samples {
        &self.read_speeds
    }

    /// Returns the results of the first contender, which are empty before the race.
    pub fn found(&self) -> &[T] {
        &self.found
    }
}

/// A [`Comparison`] of any type of results.
pub trait Turns {
    /// Returns the names of the turns in a round: the plain read and the contenders.
    fn names(&self) -> Vec<String>;

    /// Runs turn number `turn` over `data`, and records its speed if `counts` is set.
    fn take_turn(&mut self, turn: usize, data: &[u8], counts: bool);
}

impl<T: PartialEq> Turns for Comparison<'_, T> {
    fn names(&self) -> Vec<String> {
        let read = std::iter::once("plain read".to_owned());
        read.chain(self.contenders.iter().map(|contender| contender.name.clone())).collect()
    }

    fn take_turn(&mut self, turn: usize, data: &[u8], counts: bool) {
        let Some(index) = turn.checked_sub(1) else {
            let read = self.read;
            let mut work = |bytes: &[u8], _: &mut Vec<T>| {
                black_box(read.read(black_box(bytes)));
            };
            let speed = measure(data, &mut self.buffer, &mut work, &mut self.scratch);
            if counts {
                self.read_speeds.push(speed.cpu);
            }
            return;
        };
        let contender = &mut self.contenders[index];
        let work = &mut contender.work;
        let speed = measure(data, &mut self.buffer, work, &mut self.scratch);
        if counts {
            contender.speeds.push(speed.cpu);
            contender.wall_speeds.push(speed.wall);
        }
        if index == 0 && self.found.is_empty() {
            std::mem::swap(&mut self.found, &mut self.scratch);
        } else if self.scratch != self.found {
            contender.agrees = false;
        }
    }
}

/// A speed in GB per second, of CPU time and of wall-clock time.
struct Speed {
    cpu: f64,
    wall: f64,
}

/// Returns the speed of `work` over `data`, and its results in `found`. With a buffer, `data` is
/// copied into it piece by piece.
fn measure<T>(
    data: &[u8],
    buffer: &mut [u8],
    work: &mut dyn FnMut(&[u8], &mut Vec<T>),
    found: &mut Vec<T>,
) -> Speed {
    if !buffer.is_empty() {
        return measure_fresh(data, buffer, work, found);
    }
    let mut passes = 0.0;
    let (began, began_wall) = (thread_cpu_time(), Instant::now());
    loop {
        found.clear();
        work(black_box(data), found);
        passes += 1.0;
        let elapsed = thread_cpu_time().saturating_sub(began);
        if elapsed >= MEASUREMENT_MIN {
            let bytes = data.len() as f64 * passes / 1e9;
            let wall = began_wall.elapsed().as_secs_f64();
            return Speed { cpu: bytes / elapsed.as_secs_f64(), wall: bytes / wall };
        }
    }
}

/// Returns the speed of `work` over the pieces of `data`, without the time of copying them.
fn measure_fresh<T>(
    data: &[u8],
    buffer: &mut [u8],
    work: &mut dyn FnMut(&[u8], &mut Vec<T>),
    found: &mut Vec<T>,
) -> Speed {
    let clock = clock_cost();
    let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
    let mut of_piece = Vec::new();
    found.clear();
    for piece in data.chunks(buffer.len()) {
        let copy = &mut buffer[..piece.len()];
        copy.copy_from_slice(piece);
        of_piece.clear();
        let (began_wall, began) = (Instant::now(), thread_cpu_time());
        work(black_box(copy), &mut of_piece);
        cpu += thread_cpu_time().saturating_sub(began).saturating_sub(clock);
        wall += began_wall.elapsed();
        found.append(&mut of_piece);
    }
    let bytes = data.len() as f64 / 1e9;
    let seconds = |time: Duration| time.max(Duration::from_nanos(1)).as_secs_f64();
    Speed { cpu: bytes / seconds(cpu), wall: bytes / seconds(wall) }
}

/// Returns the time between two readings of the clock, which is 1 % of the time of a fast contender
/// on a mebibyte.
fn clock_cost() -> Duration {
    let readings = (0..32).map(|_| {
        let began = thread_cpu_time();
        thread_cpu_time().saturating_sub(began)
    });
    readings.min().unwrap_or_default()
}

/// The limit of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of rounds, at least one.
    Rounds(usize),
    /// The wall-clock time after which the race ends with the current round.
    Time(Duration),
}

/// The next turn of a race.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The round. Round 0 is a warm-up and does not count.
    pub round: usize,
    /// The index of the comparison.
    pub comparison: usize,
    /// The name of the contender.
    pub contender: &'a str,
}

/// Runs all contenders of all comparisons over `data` in rounds: a warm-up, then the rounds that
/// `limit` allows. The contender that begins changes with every round.
///
/// `goes_on` is called before each turn, and ends the race by returning `false`. Returns the number
/// of full rounds. A round that was ended early does not count, although some contenders have a
/// sample of it.
pub fn race(
    data: &[u8],
    comparisons: &mut [&mut dyn Turns],
    limit: Limit,
    goes_on: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> usize {
    let began = Instant::now();
    let names: Vec<Vec<String>> = comparisons.iter().map(|each| each.names()).collect();
    for round in 0.. {
        for (comparison, names) in names.iter().enumerate() {
            for turn in 0..names.len() {
                // The first round is in order, because the first contender determines the right
                // results.
                let turn = (turn + round) % names.len();
                if !goes_on(&Progress { round, comparison, contender: &names[turn] }) {
                    return round.saturating_sub(1);
                }
                comparisons[comparison].take_turn(turn, data, round > 0);
            }
        }
        let is_over = match limit {
            Limit::Rounds(count) => round >= count.max(1),
            Limit::Time(time) => round > 0 && began.elapsed() >= time,
        };
        if is_over {
            return round;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, found: usize) -> Contender<'static, usize> {
        Contender::new(Kind::Level, name, move |data, ends| ends.push(data.len() + found))
    }

    #[test]
    fn every_round_except_the_warm_up_counts() {
        let mut one = Comparison::new(vec![counted("a", 0), counted("b", 0)]);
        let mut two = Comparison::new(vec![counted("c", 0), counted("d", 1)]);
        let mut told = Vec::new();
        let rounds =
            race(&[1; 100], &mut [&mut one, &mut two], Limit::Rounds(3), &mut |progress| {
                told.push(progress.contender.to_owned());
                true
            });
        assert_eq!(rounds, 3, "rounds");
        assert_eq!(told.len(), 4 * 6, "turns");
        assert_eq!(told[..8].join(","), "plain read,a,b,plain read,c,d,a,b", "others begin");
        for contender in one.contenders() {
            assert_eq!((contender.speeds().count(), contender.agrees()), (3, true), "agreeing");
        }
        let walls = one.contenders()[0].wall_speeds();
        assert!(walls.count() == 3 && walls.median() > 0.0, "{walls:?}");
        assert_eq!(one.read_speeds().count(), 3, "reads");
        assert_eq!(one.found(), [100], "found");
        let agrees: Vec<bool> = two.contenders().iter().map(Contender::agrees).collect();
        assert_eq!(agrees, [true, false], "another result is noticed");
    }

    #[test]
    fn fresh_data_is_worked_on_piece_by_piece() {
        let first = |data: &[u8], found: &mut Vec<usize>| {
            found.extend([usize::from(data[0]), data.len()]);
        };
        let contender = Contender::new(Kind::Level, "a", first);
        let mut one = Comparison::new(vec![contender]).fresh(4);
        let data: Vec<u8> = (0..10).collect();
        race(&data, &mut [&mut one], Limit::Rounds(2), &mut |_| true);
        assert_eq!(one.found(), [0, 4, 4, 4, 8, 2], "every piece once");
        let contender = &one.contenders()[0];
        assert!(contender.agrees() && contender.speeds().count() == 2, "{contender:?}");
        assert!(contender.speeds().median() > 0.0, "{contender:?}");
    }

    #[test]
    fn race_can_be_ended_early() {
        let mut one = Comparison::new(vec![counted("a", 0)]);
        let ended =
            race(&[1; 100], &mut [&mut one], Limit::Rounds(9), &mut |progress| progress.round < 2);
        assert_eq!(ended, 1, "a whole round");
        let mut one = Comparison::new(vec![counted("a", 0)]);
        let time = Limit::Time(Duration::ZERO);
        assert_eq!(race(&[1; 100], &mut [&mut one], time, &mut |_| true), 1, "no time");
    }
}
