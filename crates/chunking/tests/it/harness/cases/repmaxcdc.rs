use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "repmaxcdc",
    specs: &[
        "repmaxcdc:min=64,horizon=1",
        "repmaxcdc:min=65,horizon=30",
        "repmaxcdc:min=70,horizon=1000",
        "repmaxcdc:min=300,horizon=400",
    ],
    vectors: &[(
        "repmaxcdc",
        &[
            "repmaxcdc:min=4096,horizon=49152",
            "repmaxcdc:min=1000,horizon=3000",
            "repmaxcdc:avg=2048",
        ],
    )],
    averages: &[("repmaxcdc:avg=", AVERAGES), ("repmaxcdc:avg=", &[128, 500])],
};
