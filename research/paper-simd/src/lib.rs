//! Vectorized chunking in the form of the papers: a baseline for `cutpoint-chunking`, which only
//! benchmarks and the lab use.
//!
//! ```
//! use cutpoint_chunking::{Spec, cuts};
//!
//! let spec: Spec = "ram:window=4000,max=32768".parse()?;
//! let data = vec![7; 100_000];
//! for baseline in cutpoint_paper_simd::all().filter(|baseline| baseline.algorithm() == "ram") {
//!     // "VRAM-128", "VRAM-256", "VRAM-512"; those that this CPU lacks are refused.
//!     let mut cutter = baseline.emulated().cutter(&spec)?;
//!     assert_eq!(cutter.cuts(&data), cuts(&*spec.chunker(), &data).collect::<Vec<_>>());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Cut-points are exactly those of `cutpoint-chunking` for the same spec, so that times are
//! comparable. A spec whose rule a form does not have is refused, not approximated.
//!
//! # Forms
//!
//! Each form is written once over vectors of 128, 256 and 512 bits (SSE2, AVX2, AVX-512 F and BW;
//! with BMI1, BMI2 and POPCNT), and over emulated vectors. No form prefetches. VSEQ follows the
//! text of its paper. SS-CDC and VectorCDC follow the description in the VSEQ paper (section II-C)
//! and the behaviour of the public programs of their authors, from which no code is taken.
//!
//! ## `SS-CRC`, `SS-Gear`
//!
//! Ni, Lin and Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for Deduplicating
//! Backup Storage" (SYSTOR 2019), of specs `crc` and `gear:table=cutpoint32`. Phase 1 processes all
//! of the data in as many segments as a register has 32-bit lanes, with a hash in each lane, and
//! marks the candidates in a bitmap. Four bytes of every segment are gathered at a time: the bytes
//! that enter and, for the CRC, the bytes that leave. Table entries are gathered for each byte.
//! Phase 2 scans the bitmap a vector at a time, and applies the minimum and the maximum size. Phase
//! 1 skips no bytes, so the minimum size saves no time.
//!
//! Differences: segments are an odd number of cache lines long, so that lanes do not compete for
//! the same set of the cache. Bitmap words are stored one by one, although AVX-512 could scatter
//! them. Data of more than 2 GiB is processed in parts, because gathers have 32-bit offsets. The
//! papers have AVX-512 only. The form of 256 bits follows from it, and the form of 128 bits, with
//! loads instead of gathers, is for completeness. `start=cold` and levels of Gear are refused, and
//! so is `start=warm` with a minimum size below the 32 bytes of the hash window. In these cases a
//! hash depends on the start of its chunk, so that the phases cannot be separated.
//!
//! ## `VRAM`, `VAE`, `VMAXP`
//!
//! Udayashankar, Baba and Al-Kiswany, "VectorCDC: Accelerating Data Deduplication with Vector
//! Instructions" (FAST 2025), of specs `ram`, `ae` and `maxp`. An extreme byte search loads the
//! vectors of a window into an array and combines them by their maximum (minimum), as in a tree. A
//! range scan compares one vector at a time with a byte. RAM is one search and one scan. AE scans
//! for a more extreme byte, searches the window after it, and continues the scan. MAXP scans after
//! a candidate and searches before it.
//!
//! Differences: windows of any size are correct, and the ends of scans are included. The code of
//! the authors at the time (dedup-bench, f2c7a7b) combines only as many vectors as the greatest
//! power of two, and omits the bytes of an incomplete vector. Later code of the authors keeps a
//! running maximum instead of the tree, while this form has the tree of the paper. Values of
//! several bytes and `lest` of AE are refused, because the paper does not have them.
//!
//! ## `VSEQ`
//!
//! Udayashankar, Baba and Al-Kiswany, "Vectorized Sequence-Based Chunking for Data Deduplication",
//! section III-D, of spec `seqcdc` with `equal=break`. For each position one vector is loaded for
//! each byte of a run, at increasing offsets: six vectors for five pairs, with a comparison between
//! each two. The conjunction of the masks has the starts of runs. A sixth comparison has the
//! opposing pairs, and `popcnt`, `pdep` and `tzcnt` find the bit that reaches the trigger.
//!
//! Differences: the paper does not define the case of a vector with both a run and the trigger.
//! Here the first of the two counts. The masks cannot pass over an equal pair, so `equal=absorb`,
//! which is the rule of the scalar code of the authors and the default of `cutpoint-chunking`, is
//! refused. `rule=released` and `rule=literal` are both implemented, and the second is the text of
//! the paper. The last bytes of a chunk, too few for all the loads, are processed one by one.
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

/// The form of a paper at one width.
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

/// Returns every form at 128, 256 and 512 bits, including those that this CPU lacks.
pub fn all() -> impl Iterator<Item = Baseline> {
    let widths = |form| [128, 256, 512].map(|bits| Baseline { form, bits, is_emulated: false });
    FORMS.into_iter().flat_map(widths)
}

impl Baseline {
    /// Returns the width of the vectors in bits.
    pub fn bits(self) -> usize {
        self.bits
    }

    /// Returns the name of the algorithm of the form, as before the colon of a spec.
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

    /// Returns the same form with vectors in plain Rust, which are slow and always available.
    #[must_use]
    pub fn emulated(self) -> Baseline {
        Baseline { is_emulated: true, ..self }
    }

    /// Returns `true` if this CPU has all instructions of the form.
    pub fn is_available(self) -> bool {
        self.machine().is_some()
    }

    /// Creates a cutter that cuts data by `spec`.
    ///
    /// # Errors
    ///
    /// Returns [`BaselineError`] if this CPU lacks the instructions, or if `spec` is of another
    /// algorithm or of a dialect that the form does not have.
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
    /// in rising order. Empty `data` has no cut-points.
    ///
    /// Working memory, such as the bitmap of SS-CDC of an eighth of `data`, is kept for the next
    /// call.
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
    /// Formats the cutter without its tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cutter").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// An error of creating a cutter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// An instruction that this CPU lacks.
    #[error("{baseline} is not available: this CPU lacks an instruction that it needs")]
    NotAvailable {
        /// The baseline that is not available.
        baseline: Baseline,
    },
    /// The form has no such rule.
    #[error("the form cannot cut by `{spec}`: {reason}")]
    Refused {
        /// The spec in full.
        spec: String,
        /// The reason of the refusal.
        reason: String,
    },
}
