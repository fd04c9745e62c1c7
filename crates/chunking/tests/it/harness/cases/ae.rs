use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "ae",
    specs: &[
        "ae:mode=max,window=60",
        "ae:mode=min,window=1",
        "ae:mode=min,window=130,max=1300",
        "ae:mode=max,window=100,bytes=2",
        "ae:mode=min,window=70,bytes=4,max=71",
        "ae:mode=max,window=33,bytes=8,max=500",
        "ae:mode=max,window=200,bytes=8",
        "ae:mode=min,window=130,bytes=8",
        "ae:mode=max,window=90,bytes=4,cut=before",
        "ae:mode=min,window=1,bytes=2",
        "ae:mode=max,window=64,cut=before,max=900",
        "ae:mode=min,window=200,cut=before",
        "ae:mode=max,window=50,lest=7",
        "ae:mode=min,window=40,bytes=2,cut=before,lest=40,max=300",
    ],
    vectors: &[(
        "ae",
        &[
            "ae:avg=2048",
            "ae:avg=10007,mode=min",
            "ae:avg=8192,bytes=8",
            "ae:mode=max,window=7936,max=65536",
            "ae:mode=min,window=1000,bytes=2,cut=before",
            "ae:mode=max,window=4096,lest=512",
        ],
    )],
    averages: &[
        ("ae:avg=", AVERAGES),
        ("ae:mode=min,bytes=2,avg=", AVERAGES),
        ("ae:bytes=4,avg=", AVERAGES),
        ("ae:bytes=8,avg=", &[4096, 16_384]),
        ("ae:cut=before,avg=", &[2048]),
    ],
};
