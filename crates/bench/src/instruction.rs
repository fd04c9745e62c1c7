//! What single instructions cost: those that look for a place in a mask, and those that make one.

use cutpoint_testing::thread_cpu_time;

use crate::Samples;
use crate::operation::{Operation, UNROLLED};

/// What an instruction costs on this CPU.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its name and operands. The first, `add r64`, is there to compare with: it takes one cycle.
    pub name: &'static str,
    /// Nanoseconds from one to the next that waits for it, a sample for each round.
    pub latency_ns: Samples,
    /// Nanoseconds for each of many that do not wait for each other, a sample for each round.
    pub throughput_ns: Samples,
}

/// How many times [`UNROLLED`] steps a measurement has: about a tenth of a millisecond and more.
const COUNT: u64 = 30_000;

/// Measures the instructions that this CPU has, in turns, in as many rounds; none on an architecture
/// other than x86-64. `goes_on` is asked before each round, and ends it by answering no.
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
            // The first round is there to get warm.
            if round > 0 {
                instruction.latency_ns.push(latency);
                instruction.throughput_ns.push(throughput);
            }
        }
    }
    instructions
}

/// Nanoseconds of CPU time for a step.
fn time(steps: fn(u64)) -> f64 {
    let began = thread_cpu_time();
    steps(COUNT);
    let elapsed = thread_cpu_time().saturating_sub(began);
    elapsed.as_secs_f64() * 1e9 / (COUNT * UNROLLED) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs all that this CPU has: none of them is illegal here.
    #[test]
    fn what_the_cpu_has_can_be_timed() {
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
