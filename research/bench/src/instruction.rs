//! The cost of single instructions that find a position in a mask or make a mask.

use cutpoint_testing::thread_cpu_time;

use crate::Samples;
use crate::operation::{Operation, UNROLLED};

/// The cost of an instruction on this CPU.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The name and the operands. The first instruction, `add r64`, takes one cycle and serves for
    /// comparison.
    pub name: &'static str,
    /// The latency in nanoseconds: the time per instruction in a dependent chain, a sample for each
    /// round.
    pub latency_ns: Samples,
    /// The reciprocal throughput in nanoseconds: the time per independent instruction, a sample for
    /// each round.
    pub throughput_ns: Samples,
}

/// The number of iterations of [`UNROLLED`] steps in a measurement, which take at least about a
/// tenth of a millisecond.
const COUNT: u64 = 30_000;

/// Measures the instructions that this CPU has, in turns, in `rounds` rounds. There are no
/// instructions on architectures other than x86-64. `goes_on` is called before each round, and ends
/// the measurement by returning `false`.
pub fn instructions(rounds: usize, goes_on: &mut dyn FnMut() -> bool) -> Vec<Instruction> {
    #[cfg(target_arch = "x86_64")]
    let operations = crate::x86_64::operations();
    #[cfg(not(target_arch = "x86_64"))]
    let operations: Vec<Operation> = Vec::new();
    let none = |operation: &Operation| Instruction {
        name: operation.name,
        latency_ns: Samples::default(),
        throughput_ns: Samples::default(),
    };
    let mut instructions: Vec<Instruction> = operations.iter().map(none).collect();
    for round in 0..=rounds {
        if !goes_on() {
            break;
        }
        for (operation, instruction) in operations.iter().zip(&mut instructions) {
            let (latency, throughput) = (time(operation.chained), time(operation.side_by_side));
            // The first round is a warm-up.
            if round > 0 {
                instruction.latency_ns.push(latency);
                instruction.throughput_ns.push(throughput);
            }
        }
    }
    instructions
}

/// Returns the CPU time of a step in nanoseconds.
fn time(steps: fn(u64)) -> f64 {
    let began = thread_cpu_time();
    steps(COUNT);
    let elapsed = thread_cpu_time().saturating_sub(began);
    elapsed.as_secs_f64() * 1e9 / (COUNT * UNROLLED) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs all instructions of this CPU, none of which may be illegal.
    #[test]
    fn instructions_of_this_cpu_can_be_timed() {
        let mut rounds = 0;
        let all = instructions(2, &mut || {
            rounds += 1;
            true
        });
        assert_eq!(rounds, 3, "one to get warm");
        assert_eq!(all.is_empty(), cfg!(not(target_arch = "x86_64")), "instructions");
        for each in &all {
            let counts = (each.latency_ns.count(), each.throughput_ns.count());
            assert_eq!(counts, (2, 2), "{}: rounds", each.name);
            let (latency, throughput) = (each.latency_ns.median(), each.throughput_ns.median());
            assert!(latency > 0.0 && throughput > 0.0, "{}: {latency} {throughput}", each.name);
        }
        #[cfg(target_arch = "x86_64")]
        for (name, is_there) in [
            ("popcnt r64", std::arch::is_x86_feature_detected!("popcnt")),
            ("pdep r64", std::arch::is_x86_feature_detected!("bmi2")),
            ("vpcompressb zmm", std::arch::is_x86_feature_detected!("avx512vbmi2")),
        ] {
            assert_eq!(all.iter().any(|each| each.name == name), is_there, "{name}");
        }
    }
}
