//! The papers' own forms of vectorized chunking: a yardstick for ours, used by benchmarks and the lab and
//! by nothing that cuts for keeps.
//!
//! ```
//! use cutpoint_chunking::{Spec, cuts};
//!
//! let spec: Spec = "ram:window=4000,max=32768".parse()?;
//! let data = vec![7; 100_000];
//! for baseline in cutpoint_baseline::all().filter(|baseline| baseline.algorithm() == "ram") {
//!     // "VRAM-128", "VRAM-256", "VRAM-512"; those that this CPU lacks are refused.
//!     let mut cutter = baseline.emulated().cutter(&spec)?;
//!     assert_eq!(cutter.cuts(&data), cuts(&*spec.chunker(), &data).collect::<Vec<_>>());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Cut-points are those of `cutpoint-chunking` for the same spec, to the byte: only then do times
//! compare. A spec whose rule a form does not have is refused, not approximated.
//!
//! # Forms
//!
//! Each is written once over vectors of 128, 256 and 512 bits (SSE2, AVX2, AVX-512 F and BW; with BMI1,
//! BMI2 and POPCNT), and emulated ones. None of them prefetches. VSEQ follows its paper's text. SS-CDC and
//! VectorCDC follow the account that this paper gives of them (section II-C), and what their authors'
//! public programs do; no code is taken from those.
//!
//! ## `SS-CRC`, `SS-Gear`
//!
//! Ni, Lin and Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for Deduplicating Backup
//! Storage" (SYSTOR 2019), of specs `crc` and `gear:table=cutpoint32`. Phase 1 goes over all of the
//! data in as many segments as a register has 32-bit lanes, a hash in each, and marks the candidates in
//! a bitmap. Four bytes of every segment are gathered at a time, those that enter and, for the CRC,
//! those that leave; table entries are gathered for each byte. Phase 2 walks the bitmap a vector at a
//! time, with the smallest and the largest size. Nothing is skipped in phase 1, so the smallest size
//! saves no time.
//!
//! Where it differs: segments are an odd number of cache lines long, so that lanes do not compete for
//! the same set of the cache; bitmap words are stored one by one, where AVX-512 could scatter them; data
//! of more than 2 GiB is done in parts, as gathers have 32-bit offsets. The papers have AVX-512 only;
//! 256 bits follow from it, and 128, where loads replace the gathers, are for completeness. Refused are
//! `start=cold` and levels of Gear, and `start=warm` with a smallest size below the 32 bytes that the
//! hash knows: there a hash depends on where its chunk begins, so that the phases cannot be told apart.
//!
//! ## `VRAM`, `VAE`, `VMAXP`
//!
//! Udayashankar, Baba and Al-Kiswany, "VectorCDC: Accelerating Data Deduplication with Vector
//! Instructions" (FAST 2025), of specs `ram`, `ae` and `maxp`. An extreme byte search loads a window's
//! vectors into an array and joins them by their maximum (minimum), as in a tree; a range scan
//! compares one vector at a time with a byte. RAM is one search and one scan; AE scans for a more extreme
//! byte, searches the window behind it, and scans on; MAXP scans behind a candidate and searches before
//! it.
//!
//! Where it differs: any window is right, and the ends of scans are looked at. The authors' code of the
//! time (dedup-bench, f2c7a7b) joins only as many vectors as the greatest power of two, and leaves out
//! what is less than a vector. Later code of theirs keeps a running maximum instead of the tree; this is
//! the paper's. Refused are values of several bytes and `lest` of AE, which the paper does not have.
//!
//! ## `VSEQ`
//!
//! Udayashankar, Baba and Al-Kiswany, "Vectorized Sequence-Based Chunking for Data Deduplication",
//! section III-D, of spec `seqcdc` with `equal=break`. For each position one vector is loaded for each
//! byte of a run, at ever greater offsets: six for five pairs, with a comparison between each two. The
//! masks' conjunction says where runs begin; a sixth comparison says which pairs oppose, and the bit
//! that reaches the trigger is found by `popcnt`, `pdep` and `tzcnt`.
//!
//! Where it differs: the paper does not say what holds if a vector has both a run and the trigger; here
//! the first of them. Its masks cannot pass over an equal pair, so `equal=absorb`, which is the rule of
//! the authors' scalar code and our default, is refused; `rule=released` and `rule=literal` are both
//! cut, and the second is the paper's text. The last bytes of a chunk, too few for all the loads, are
//! looked at one by one.
#![deny(unsafe_code)]

mod extreme;
mod keys;
mod rule;
mod sscdc;
mod vector;
mod vectorcdc;
mod vseq;

use std::fmt;

use cutpoint_chunking::Spec;

use crate::rule::Rule;
use crate::sscdc::{Crc, Gear, Hash, SsCdc};
use crate::vector::Machine;

/// A paper's form at one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    form: Form,
    bits: usize,
    is_emulated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    SsCrc,
    SsGear,
    Vram,
    Vae,
    Vmaxp,
    Vseq,
}

const FORMS: [Form; 6] =
    [Form::SsCrc, Form::SsGear, Form::Vram, Form::Vae, Form::Vmaxp, Form::Vseq];

/// Returns every form at 128, 256 and 512 bits, whether this CPU has them or not.
pub fn all() -> impl Iterator<Item = Baseline> {
    let widths = |form| [128, 256, 512].map(|bits| Baseline { form, bits, is_emulated: false });
    FORMS.into_iter().flat_map(widths)
}

impl Baseline {
    /// Returns the width of its vectors in bits.
    pub fn bits(self) -> usize {
        self.bits
    }

    /// Returns the name of the algorithm whose specs it cuts by, as it stands before their colon.
    pub fn algorithm(self) -> &'static str {
        match self.form {
            Form::SsCrc => "crc",
            Form::SsGear => "gear",
            Form::Vram => "ram",
            Form::Vae => "ae",
            Form::Vmaxp => "maxp",
            Form::Vseq => "seqcdc",
        }
    }

    /// Returns the same with vectors of plain Rust, which are slow and always available.
    #[must_use]
    pub fn emulated(self) -> Baseline {
        Baseline { is_emulated: true, ..self }
    }

    /// Returns whether this CPU has all instructions that it needs.
    pub fn is_available(self) -> bool {
        self.machine().is_some()
    }

    /// Makes what cuts data by `spec`.
    ///
    /// # Errors
    ///
    /// [`BaselineError`] where this CPU lacks the instructions, and where `spec` is of another algorithm
    /// or of a dialect that the form does not have.
    pub fn cutter(self, spec: &Spec) -> Result<Cutter, BaselineError> {
        let missing = || BaselineError::NotAvailable { baseline: self };
        let machine = self.machine().ok_or_else(missing)?;
        if spec.algorithm() != self.algorithm() {
            let (spec, reason) =
                (spec.to_string(), format!("it is a form of {}", self.algorithm()));
            return Err(BaselineError::Refused { spec, reason });
        }
        let rule = match self.form {
            Form::SsCrc => Any::SsCrc(SsCdc::crc(spec)?),
            Form::SsGear => Any::SsGear(SsCdc::gear(spec)?),
            Form::Vram => Any::Vram(vectorcdc::Ram::new(spec)?),
            Form::Vae => Any::Vae(vectorcdc::Ae::new(spec)?),
            Form::Vmaxp => Any::Vmaxp(vectorcdc::Maxp::new(spec)?),
            Form::Vseq => Any::Vseq(vseq::Seq::new(spec)?),
        };
        Ok(Cutter { machine, rule })
    }

    fn machine(self) -> Option<Machine> {
        if self.is_emulated { Machine::emulated(self.bits) } else { Machine::detect(self.bits) }
    }
}

impl fmt::Display for Baseline {
    /// Writes the name: `SS-CRC-512`, `VRAM-256`, `VSEQ-128-emulated` and so on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::SsCrc => "SS-CRC",
            Form::SsGear => "SS-Gear",
            Form::Vram => "VRAM",
            Form::Vae => "VAE",
            Form::Vmaxp => "VMAXP",
            Form::Vseq => "VSEQ",
        };
        write!(f, "{form}-{}{}", self.bits, if self.is_emulated { "-emulated" } else { "" })
    }
}

/// Cuts whole buffers by one spec.
pub struct Cutter {
    machine: Machine,
    rule: Any,
}

enum Any {
    SsCrc(SsCdc<Crc>),
    SsGear(SsCdc<Gear>),
    Vram(vectorcdc::Ram),
    Vae(vectorcdc::Ae),
    Vmaxp(vectorcdc::Maxp),
    Vseq(vseq::Seq),
}

impl Cutter {
    /// Returns the cut-points of `data`, a whole stream: the exclusive end of each chunk in bytes,
    /// rising. Empty `data` has none.
    ///
    /// Memory to work in, such as SS-CDC's bitmap of an eighth of `data`, is kept for the next call.
    pub fn cuts(&mut self, data: &[u8]) -> Vec<usize> {
        fn by_chunk(machine: Machine, rule: &impl Rule, data: &[u8]) -> Vec<usize> {
            machine.dispatch(rule::Cuts { rule, data })
        }
        fn by_phases(machine: Machine, cutter: &mut SsCdc<impl Hash>, data: &[u8]) -> Vec<usize> {
            machine.dispatch(sscdc::Cuts { cutter, data })
        }
        match &mut self.rule {
            Any::SsCrc(rule) => by_phases(self.machine, rule, data),
            Any::SsGear(rule) => by_phases(self.machine, rule, data),
            Any::Vram(rule) => by_chunk(self.machine, rule, data),
            Any::Vae(rule) => by_chunk(self.machine, rule, data),
            Any::Vmaxp(rule) => by_chunk(self.machine, rule, data),
            Any::Vseq(rule) => by_chunk(self.machine, rule, data),
        }
    }
}

impl fmt::Debug for Cutter {
    /// Leaves the tables out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cutter").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// Why a baseline cannot cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// This CPU lacks an instruction.
    #[error("{baseline} is not available: this CPU lacks an instruction that it needs")]
    NotAvailable {
        /// What was asked for.
        baseline: Baseline,
    },
    /// The form has no such rule.
    #[error("the form cannot cut by `{spec}`: {reason}")]
    Refused {
        /// The spec, written out.
        spec: String,
        /// What is in the way.
        reason: String,
    },
}
