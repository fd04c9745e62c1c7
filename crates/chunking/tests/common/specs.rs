//! Specs of every algorithm, for tests of what holds for all: small sizes, so that a few thousand bytes
//! meet every edge; each dialect; with limits and, where that is possible, without.

pub(crate) const SPECS: &[&str] = &[
    "fixed:size=1",
    "fixed:size=777",
    "seqcdc:mode=inc,length=2,trigger=7,skip=20,min=60,max=900",
    "seqcdc:mode=dec,length=3,trigger=20,skip=0,min=1,max=700",
    "fastcdc:level=0,min=64,normal=256,max=1024,seed=0",
    "fastcdc:level=2,min=64,normal=300,max=1024,seed=3",
];
