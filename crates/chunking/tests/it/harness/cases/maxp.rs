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
        "maxp:window=60,bytes=8",
        "maxp:window=1,bytes=8",
        "maxp:window=130,bytes=2",
        "maxp:window=33,bytes=4,max=300",
        "maxp:window=20,bytes=8,max=60",
        "maxp:window=50,bytes=8,form=strict",
        "maxp:window=70,bytes=2,form=strict,max=900",
    ],
    vectors: &[(
        "maxp",
        &[
            "maxp:avg=2048",
            "maxp:avg=10007,form=strict",
            "maxp:window=960,max=32768",
            "maxp:window=100,form=strict,max=201",
            "maxp:avg=8192,bytes=8",
            "maxp:window=1000,bytes=2,form=strict",
            "maxp:window=500,bytes=4,max=4096",
        ],
    )],
    averages: &[
        ("maxp:avg=", AVERAGES),
        ("maxp:form=strict,avg=", &[4096, 16_384]),
        ("maxp:bytes=2,avg=", &[2048, 16_384]),
        ("maxp:bytes=2,form=strict,avg=", &[4096]),
        ("maxp:bytes=4,avg=", &[8192]),
        ("maxp:bytes=8,avg=", AVERAGES),
    ],
};
