//! Whether the compiler made of the vector code what it was written for.
//!
//! Code for an instruction set is one function, `entered`, into which all else is inlined. Where a piece is
//! not, it is compiled without the instruction set: nothing fails, but it is many times slower. So the
//! assembly is read: which instructions `entered` has, and that nothing of the kernels is called.

use std::path::Path;

use serde_json::Value;

use crate::{cargo, output, run};

/// Where the assembly is looked at.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What `entered` must have at a level, whatever it does there.
struct Level {
    /// As it stands in the type of its proof.
    name: &'static str,
    /// Beginnings of the names of registers or instructions, one of which is needed.
    any_of: &'static [&'static str],
}

/// What `entered` must have for a task, at a level.
struct Task {
    crate_name: &'static str,
    level: &'static str,
    /// Parts of the name of the task's type.
    task: &'static [&'static str],
    /// Instructions, each by alternatives; all are needed.
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

/// A look-up in a table of 256 bytes.
const LOOK_UP: &[&str] = &["vpermt2b", "vpermi2b"];

#[rustfmt::skip]
const TASKS: [Task; 19] = [
    Task { crate_name: CHUNKING, level: "Sse41", task: &["seqcdc::CutOne"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["seqcdc::CutOne"], all_of: &[&["vpminub"], &["vpmovmskb"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["seqcdc::CutOne"], all_of: &[&["vpcmpltub", "vpcmpub"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["seqcdc::CutAll"], all_of: &[&["pminub"], &["pmovmskb"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["seqcdc::CutAll"], all_of: &[&["vpminub"], &["vpmovmskb"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["seqcdc::CutAll"], all_of: &[&["vpcmpltub", "vpcmpub"], &["pdep"], &["pext"]] },
    Task { crate_name: CHUNKING, level: "Sse41", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["pmulld"], &["pminud"]] },
    Task { crate_name: CHUNKING, level: "Avx2", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["vpmulld"], &["vpminud"]] },
    Task { crate_name: CHUNKING, level: "Avx512", task: &["bytes::Find", "mincdc::Params"], all_of: &[&["vpmulld"], &["vpminud"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "gear::Sums<8"], all_of: &[LOOK_UP, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "gear::Sums<6"], all_of: &[LOOK_UP, &["vptestnm"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "buzhash::TurnColumns"], all_of: &[LOOK_UP] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "crc::CrcColumns"], all_of: &[&["vgf2p8affineqb"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "rabin::RabinColumns"], all_of: &[&["vgf2p8affineqb"]] },
    Task { crate_name: CHUNKING, level: "Avx512Vbmi", task: &["marks::Hash", "pci::CountColumns"], all_of: &[&["vpopcntb"]] },
    Task { crate_name: CHUNKING, level: "AesNi", task: &["aes::Find"], all_of: &[&["aesenc\t"], &["aesenclast\t"]] },
    Task { crate_name: CHUNKING, level: "Vaes512", task: &["aes::Find"], all_of: &[&["vaesenc\t"], &["vaesenclast\t"], &["vpermb"]] },
    Task { crate_name: FINGERPRINT, level: "Avx2", task: &["tree::Hash"], all_of: &[&["vpaddd"], &["vpxor"], &["vpshufb"]] },
    Task { crate_name: FINGERPRINT, level: "Avx512", task: &["tree::Hash"], all_of: &[&["vpaddd"], &["vpxor"], &["vprord", "vprold"]] },
];

/// Ends of the names of functions that are called on purpose.
const MAY_BE_CALLED: [&str; 4] = [
    // 16 instructions, which the compiler leaves where it is asked from many places; they are SSE4.1.
    "::sse41::above",
    // Once for 4 KiB of data; it has the instruction set itself.
    "::transpose",
    // Takes note of the few places that match; without vectors.
    "::note",
    // Makes a list, once in a call; what it is made by has no vectors, or they would be called.
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

/// The assembly of a crate as the release has it, but for what linking adds.
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
    // Names that have the types in them, and one file.
    words.extend(["--", &emit, "-Csymbol-mangling-version=v0", "-Ccodegen-units=1"]);
    let mut command = cargo(&words);
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    run(command)?;
    std::fs::read_to_string(Path::new(&path)).map_err(|error| format!("{path}: {error}"))
}

/// A function of the assembly.
#[derive(Debug)]
struct Function {
    /// Demangled.
    name: String,
    /// Instructions with their operands.
    lines: Vec<String>,
    /// Demangled names of what it calls, or jumps to.
    callees: Vec<String>,
}

impl Function {
    /// The level whose `entered` that is.
    fn level(&self) -> Option<&'static Level> {
        let (path, _) = self.name.split_once("::enter::entered::")?;
        // The proof's own function, or that of a trait.
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

/// The functions of an assembly text, in the syntax of AT&T.
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
            // Also what is put into a register to be called.
            let loads = instruction.starts_with("mov") || instruction.starts_with("lea");
            if (goes || loads) && symbol.starts_with("_R") {
                function.callees.push(demangled(symbol));
            }
        }
        function.lines.push(line.to_owned());
    }
    functions
}

/// Without the hashes of crates.
fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

/// What is wrong with the functions of a crate.
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
            // A function of a level, or an intrinsic: who calls it lacks the instruction set, or should
            // have it inlined.
            let is_kernel = !callee.contains('<') && callee.contains("::x86_64::");
            let enters = callee.contains("::enter::entered::");
            let is_intrinsic = callee.contains("::core_arch::") && !enters;
            // And what is generic over a level must be a part of `entered`.
            let is_generic = is_entered && callee.contains("::x86_64::");
            // Makes buffers, once in a batch.
            let is_filling = !is_entered && callee.ends_with("::splat");
            let is_wanted = is_filling || MAY_BE_CALLED.iter().any(|end| callee.ends_with(end));
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
        // Of the other levels and tasks there are none here.
        faults.retain(|fault| !fault.contains("nothing is entered"));
        faults
    }

    #[test]
    fn what_is_missing_is_found() {
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
    fn nothing_at_all_is_a_fault() {
        assert!(faults(CHUNKING, &[]).len() >= 9, "every task is missed");
    }
}
