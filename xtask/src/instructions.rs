//! The check that the compiler emits the intended instructions for the vector code.
//!
//! Code for an instruction set is one function, `entered`, into which everything else is inlined. A
//! part that is not inlined is compiled without the instruction set, which does not fail but is
//! many times slower. The check reads the assembly: the instructions of `entered`, and the absence
//! of calls of kernel functions.

use std::path::Path;

use serde_json::Value;

use crate::{cargo, output, run};

/// The target whose assembly is checked.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The requirements for `entered` at a level, for any task.
struct Level {
    /// The name of the proof type of the level.
    name: &'static str,
    /// Prefixes of names of registers or instructions, at least one of which must occur.
    any_of: &'static [&'static str],
}

/// The requirements for `entered` for a task at a level.
struct Task {
    crate_name: &'static str,
    level: &'static str,
    /// Parts of the name of the type of the task.
    task: &'static [&'static str],
    /// The instructions, all of which must occur. Each is a list of alternatives.
    all_of: &'static [&'static [&'static str]],
}

const LEVELS: [Level; 6] = [
    Level { name: "Sse41", any_of: &["%xmm"] },
    Level { name: "Avx2", any_of: &["%ymm"] },
    Level { name: "Avx512", any_of: &["%zmm"] },
    Level { name: "Avx512Vbmi", any_of: &["%zmm"] },
    Level { name: "AesNi", any_of: &["%xmm"] },
    Level { name: "Vaes512", any_of: &["%zmm"] },
];

const CHUNKING: &str = "cutpoint-chunking";
const FINGERPRINT: &str = "cutpoint-fingerprint";

/// The instructions for a look-up in a table of 256 bytes.
const LOOK_UP: &[&str] = &["vpermt2b", "vpermi2b"];

/// The instructions for a look-up in a table of 256 pairs of bytes.
const LOOK_UP_PAIRS: &[&str] = &["vpermt2w", "vpermi2w"];

#[rustfmt::skip]
const TASKS: [Task; 35] = [
    Task { crate_name: CHUNKING, level: "Sse41", task: &["seqcdc::CutOne"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["seqcdc::CutOne"], all_of: &[&["vpminub"], &["vpmovmskb"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["seqcdc::CutOne"], all_of: &[&["vpcmpltub", "vpcmpub"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["seqcdc::CutAll"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["seqcdc::CutAll"], all_of: &[&["vpminub"], &["vpmovmskb"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["seqcdc::CutAll"], all_of: &[&["vpcmpltub", "vpcmpub"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["pmulld"], &["pminud"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["vpmulld"], &["vpminud"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["vpmulld"], &["vpminud"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["bytes::Find", "ae::Params"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["bytes::Find", "ae::Params"], all_of: &[&["vpminub"], &["vpmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["bytes::Find", "ae::Params"], all_of: &[&["vpcmpnleub", "vpcmpltub", "vpcmpub"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["bytes::Find", "maxp::Params"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["bytes::Find", "maxp::Params"], all_of: &[&["vpminub"], &["vpmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["bytes::Find", "maxp::Params"], all_of: &[&["vpcmpnleub", "vpcmpltub", "vpcmpub"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "gear::Sums<4"], all_of: &[LOOK_UP, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "gear::Sums<3"], all_of: &[LOOK_UP, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "buzhash::TurnColumns"], all_of: &[LOOK_UP] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "crc::CrcColumns"], all_of: &[&["vgf2p8affineqb"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "rabin::RabinColumns"], all_of: &[&["vgf2p8affineqb"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["candidate_bits::Hash", "pci::CountColumns"], all_of: &[&["vpopcntb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["candidate_bits::Hash", "crc::CrcColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["candidate_bits::Hash", "rabin::RabinColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["candidate_bits::Hash", "pci::CountColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "crc::CrcColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "rabin::RabinColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "pci::CountColumns"], all_of: &[&["vpshufb"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "gear::Sums<4"], all_of: &[LOOK_UP_PAIRS, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "gear::Sums<3"], all_of: &[LOOK_UP_PAIRS, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "gear::Sums<2"], all_of: &[LOOK_UP_PAIRS, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["candidate_bits::Hash", "buzhash::TurnColumns"], all_of: &[LOOK_UP_PAIRS] },
    Task { crate_name: CHUNKING, level: "AesNi", task: &["aes::Find"], all_of: &[&["aesenc\t"], &["aesenclast\t"]] },
    Task { crate_name: CHUNKING, level: "Vaes512", task: &["aes::Find"], all_of: &[&["vaesenc\t"], &["vaesenclast\t"], &["vpermb"]] },
    Task { crate_name: FINGERPRINT, level: "Avx2", task: &["tree::Hash"], all_of: &[&["vpaddd"], &["vpxor"], &["vpshufb"]] },
    Task { crate_name: FINGERPRINT, level: "Avx512", task: &["tree::Hash"], all_of: &[&["vpaddd"], &["vpxor"], &["vprord", "vprold"]] },
];

/// The suffixes of the names of functions that may be called, without parameters that are `bool`.
const MAY_BE_CALLED: [&str; 14] = [
    // Has 16 instructions of SSE4.1, which the compiler does not inline because there are many
    // callers.
    "::sse41::above",
    // Have the instruction set themselves. The compiler does not inline them where values of several
    // bytes are searched, because there are many callers: the speeds of AE and MAXP in
    // `docs/notes/chunking-speed.md` are with the calls.
    "::avx2::pairs_from",
    "::avx2::pairs_to",
    "::sse41::pairs_from",
    "::values_from",
    "::values_to",
    // Are called once for 256 bytes of such a search, or for a quarter of its spans, or once for a
    // chunk.
    "::next_extreme",
    "::greatest_values_from",
    "::extreme_at",
    // Is called once for 128 bytes, and has the instruction set itself.
    "::sse41::least_numbers_of_groups",
    "::first_number",
    // Is called once for 4 KiB of data, and has the instruction set itself.
    "::transpose",
    // Notes the few places that match, without vectors.
    "::note",
    // Makes a list once per call. The iterator has no vectors, or their functions would be called.
    "::from_iter",
];

/// Builds the crates that have kernels and reads their assembly.
pub(crate) fn check() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        println!("xtask: not on x86-64: the instructions of kernels were not looked at");
        return Ok(());
    }
    let mut wrong = Vec::new();
    for crate_name in [CHUNKING, FINGERPRINT] {
        let assembly = assembly(crate_name)?;
        let functions = functions(&assembly);
        wrong.extend(faults(crate_name, &functions));
        let count = functions.iter().filter(|function| function.level().is_some()).count();
        println!("xtask: {crate_name}: {count} functions entered at a level");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the assembly of a crate as in the release build, without link-time optimization.
fn assembly(crate_name: &str) -> Result<String, String> {
    let metadata = output(cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let folder = metadata["target_directory"].as_str().ok_or("cargo names no target directory")?;
    let folder = format!("{folder}/instructions");
    let path = format!("{folder}/{crate_name}.s");
    let emit = format!("--emit=asm={path}");
    let mut words =
        vec!["rustc", "--quiet", "--release", "--lib", "-p", crate_name, "--target", TARGET];
    words.extend(["--target-dir", &folder]);
    // The symbol names contain the types, and there is a single file.
    words.extend(["--", &emit, "-Csymbol-mangling-version=v0", "-Ccodegen-units=1"]);
    let mut command = cargo(&words);
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    run(command)?;
    std::fs::read_to_string(Path::new(&path)).map_err(|error| format!("{path}: {error}"))
}

/// A function of the assembly.
#[derive(Debug)]
struct Function {
    /// The demangled name.
    name: String,
    /// The instructions with their operands.
    lines: Vec<String>,
    /// The demangled names of the functions that it calls or jumps to.
    callees: Vec<String>,
}

impl Function {
    /// Returns the level if the function is the `entered` of a level.
    fn level(&self) -> Option<&'static Level> {
        let (path, _) = self.name.split_once("::enter::entered::")?;
        // The function belongs to the proof type itself, or to a trait of it.
        let is_of = |level: &&Level| {
            let name = level.name;
            path.ends_with(&format!("::{name}>")) || path.contains(&format!("::{name} as "))
        };
        LEVELS.iter().find(is_of)
    }

    fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    fn has_instruction(&self, name: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(name))
    }
}

/// Returns the functions of an assembly text in AT&T syntax.
fn functions(assembly: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in assembly.lines() {
        if let Some(symbol) = line.strip_suffix(':').filter(|symbol| symbol.starts_with("_R")) {
            let name = demangled(symbol);
            functions.push(Function { name, lines: Vec::new(), callees: Vec::new() });
        }
        let (Some(function), Some(line)) = (functions.last_mut(), line.strip_prefix('\t')) else {
            continue;
        };
        if line.starts_with('.') {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        if let (Some(instruction), Some(target)) = (words.next(), words.next()) {
            let symbol = target.trim_start_matches('*').split(['@', '(']).next().unwrap_or("");
            let goes = instruction.starts_with("call") || instruction.starts_with('j');
            // A function may also be called by its address in a register.
            let loads = instruction.starts_with("mov") || instruction.starts_with("lea");
            if (goes || loads) && symbol.starts_with("_R") {
                function.callees.push(demangled(symbol));
            }
        }
        function.lines.push(line.to_owned());
    }
    functions
}

/// Returns the demangled name, without the hashes of crates.
fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

/// Returns the name of a function without its parameters if all of them are `bool`.
fn without_bools(name: &str) -> &str {
    let parts = name.strip_suffix('>').and_then(|name| name.rsplit_once("::<"));
    let is_bool = |parameter| matches!(parameter, "false" | "true");
    let parts = parts.filter(|(_, parameters)| parameters.split(", ").all(is_bool));
    parts.map_or(name, |(name, _)| name)
}

/// Returns the faults of the functions of a crate.
fn faults(crate_name: &str, functions: &[Function]) -> Vec<String> {
    let mut wrong = Vec::new();
    let entered = || functions.iter().filter_map(|function| Some((function, function.level()?)));
    for (function, level) in entered() {
        if !level.any_of.iter().any(|register| function.has(register)) {
            wrong.push(format!("{}: has none of {}", function.name, level.any_of.join(", ")));
        }
    }
    for function in functions {
        let is_entered = function.level().is_some();
        let is_fault = |callee: &&String| {
            // A function of a level or an intrinsic. Its caller lacks the instruction set, or
            // should have inlined it.
            let is_kernel = !callee.contains('<') && callee.contains("::x86_64::");
            let enters = callee.contains("::enter::entered::");
            let is_intrinsic = callee.contains("::core_arch::") && !enters;
            // A function that is generic over a level must be inlined into `entered`.
            let is_generic = is_entered && callee.contains("::x86_64::");
            // Functions that fill buffers once per batch may call `splat`.
            let is_filling = !is_entered && callee.ends_with("::splat");
            let name = without_bools(callee);
            let is_wanted = is_filling || MAY_BE_CALLED.iter().any(|end| name.ends_with(end));
            (is_kernel || is_intrinsic || is_generic) && !is_wanted
        };
        for callee in function.callees.iter().filter(is_fault) {
            wrong.push(format!("{}: calls {callee}, which was to be inlined", function.name));
        }
    }
    for task in TASKS.iter().filter(|task| task.crate_name == crate_name) {
        let Task { level: level_name, task: task_name, .. } = task;
        let of_task = entered().filter(|(function, level)| {
            let argument = function.name.split_once("::entered::").map_or("", |(_, task)| task);
            level.name == *level_name && task_name.iter().all(|part| argument.contains(part))
        });
        let mut count = 0;
        for (function, _) in of_task {
            count += 1;
            for alternatives in task.all_of {
                if !alternatives.iter().any(|name| function.has_instruction(name)) {
                    wrong.push(format!("{}: has no {}", function.name, alternatives.join(" or ")));
                }
            }
        }
        if count == 0 {
            let task_name = task_name.join(", ");
            wrong.push(format!("{crate_name}: nothing is entered at {level_name} for {task_name}"));
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `<cutpoint_chunking::kernel::x86_64::avx2::Avx2>::enter::entered::<cutpoint_chunking::algorithm::seqcdc::CutOne>`.
    const ENTERED: &str = "_RINvNvMNtNtNtCs2qwgTucydGA_17cutpoint_chunking6kernel6x86_644avx2NtB5_4Avx25enter7enteredNtNtNtBb_9algorithm6seqcdc6CutOneEBb_";
    /// `cutpoint_chunking::kernel::x86_64::avx2::compare`.
    const HELPER: &str = "_RNvNtNtNtCs2qwgTucydGA_17cutpoint_chunking6kernel6x86_644avx27compare";

    fn faults_of(lines: &[&str]) -> Vec<String> {
        let body: String = lines.iter().map(|line| format!("\t{line}\n")).collect();
        let functions = functions(&format!("{ENTERED}:\n\t.cfi_startproc\n{body}"));
        assert_eq!(functions.len(), 1, "functions");
        let mut faults = faults(CHUNKING, &functions);
        // Faults about other levels and tasks, which are absent here, do not count.
        faults.retain(|fault| !fault.contains("nothing is entered"));
        faults
    }

    #[test]
    fn missing_instruction_is_a_fault() {
        let whole = [
            "vpminub\t(%rdi), %ymm0, %ymm1",
            "vpmovmskb\t%ymm1, %eax",
            "pdepq\t%rax, %rcx, %rdx",
            "pextq\t%rax, %rcx, %rdx",
        ];
        assert_eq!(faults_of(&whole), Vec::<String>::new(), "all is there");
        let without = faults_of(&whole[..3]);
        assert!(without.len() == 1 && without[0].ends_with("has no pext"), "{without:?}");
        let helper = format!("callq\t{HELPER}");
        let calls = faults_of(&[&whole[..], &[&helper]].concat());
        assert!(
            calls.len() == 1 && calls[0].contains("calls cutpoint_chunking::kernel"),
            "{calls:?}"
        );
        let through = format!("callq\t*{HELPER}@GOTPCREL(%rip)");
        assert_eq!(faults_of(&[&whole[..], &[&through]].concat()), calls, "through a table");
        let scalar = faults_of(&["movq\t%rax, %rcx"]);
        assert!(scalar.iter().any(|fault| fault.ends_with("has none of %ymm")), "{scalar:?}");
    }

    #[test]
    fn assembly_without_functions_is_a_fault() {
        assert!(faults(CHUNKING, &[]).len() >= 9, "every task is missed");
    }
}
