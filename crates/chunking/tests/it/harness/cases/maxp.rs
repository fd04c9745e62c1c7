use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "maxp",
    specs: &[
        "maxp:window=1",
        "maxp:window=60",
        "maxp:window=64,max=200",
        "maxp:window=20,max=700",
        "maxp:window=5,form=strict",
        "maxp:window=90,form=strict,max=1000",
        "maxp:window=130",
    ],
    vectors: &[(
        "maxp",
        &[
            "maxp:avg=2048",
            "maxp:avg=10007,form=strict",
            "maxp:window=960,max=32768",
            "maxp:window=100,form=strict,max=201",
        ],
    )],
    averages: &[("maxp:avg=", AVERAGES), ("maxp:form=strict,avg=", &[4096, 16_384])],
};
