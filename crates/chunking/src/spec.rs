//! An algorithm with its parameters, as text.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::algorithm::fastcdc::{self, FastCdc};
use crate::algorithm::fixed::Fixed;
use crate::algorithm::seqcdc::{self, Mode, SeqCdc};
use crate::{Chunker, KeyMaterial};

/// A chunking algorithm with all its parameters, checked.
///
/// # Text
///
/// `algorithm:key=value,key=value`, in lower case, without spaces; the keys in any order. A size is
/// in bytes, or with the suffix `k` (KiB) or `m` (MiB).
///
/// | written out | keys |
/// | --- | --- |
/// | `seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096,max=16384` | [`seqcdc::Params`]; mode `inc` or `dec` |
/// | `fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0` | [`fastcdc::Params`]; seed decimal, or hexadecimal after `0x`; 0 where left out |
/// | `fixed:size=8192` | [`Fixed`] |
///
/// | in short | meaning |
/// | --- | --- |
/// | `seqcdc:avg=16k` and, if wanted, `mode` | [`seqcdc::Params::for_mean`]; `inc` |
/// | `seqcdc:paper=8k` and, if wanted, `mode` | [`seqcdc::Params::paper`]; `inc` |
/// | `fastcdc:avg=16k` and, if wanted, `level`, `seed` | [`fastcdc::Params::for_mean`]; level 2 |
///
/// `avg` is the real mean chunk size on random data. It is not FastCDC's `normal`, which crate
/// fastcdc calls the average. `Display` always writes the parameters out, in the order and form of
/// the first table, so the text that it gives means the same for ever, whatever a short form may
/// come to mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec(Algorithm);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Algorithm {
    SeqCdc(seqcdc::Params),
    FastCdc(fastcdc::Params),
    Fixed(Fixed),
}

impl Spec {
    /// Makes the chunker.
    pub fn chunker(&self) -> Box<dyn Chunker> {
        match &self.0 {
            Algorithm::SeqCdc(params) => boxed(SeqCdc::new(*params)),
            Algorithm::FastCdc(params) => boxed(FastCdc::new(*params)),
            Algorithm::Fixed(fixed) => Box::new(*fixed),
        }
    }

    /// Makes the chunker whose cut-points are secret.
    ///
    /// What becomes of `material` is said at [`SeqCdc::keyed`] and [`FastCdc::keyed`]; `fixed` has
    /// no use for it.
    pub fn keyed_chunker(&self, material: &KeyMaterial) -> Box<dyn Chunker> {
        match &self.0 {
            Algorithm::SeqCdc(params) => boxed(SeqCdc::new(*params)),
            Algorithm::FastCdc(params) => boxed(FastCdc::keyed(*params, material)),
            Algorithm::Fixed(fixed) => Box::new(*fixed),
        }
    }
}
