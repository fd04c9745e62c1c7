use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "xet",
    specs: &[
        "xet:min=1,target=2,max=1",
        "xet:min=64,target=128,max=1000",
        "xet:min=66,target=256,max=512",
        "xet:min=300,target=64,max=400",
    ],
    vectors: &[("xet", &["xet:min=1024,target=8192,max=16384", "xet:avg=2048", "xet:avg=5000"])],
    averages: &[("xet:avg=", AVERAGES)],
};
