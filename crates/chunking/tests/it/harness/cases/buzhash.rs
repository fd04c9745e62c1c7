use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "buzhash",
    specs: &[
        "buzhash:divisor=128,window=16",
        "buzhash:divisor=100,remainder=99,window=48,min=64,max=600",
        "buzhash:divisor=64,window=64,table=bita,runs=early",
        "buzhash:divisor=77,remainder=3,window=5,table=bita,runs=early,min=30,max=400",
        // Windows of zeros match, so that testing one more or one fewer is noticed.
        "buzhash:divisor=11,remainder=4,window=2,table=bita,runs=early,min=3,max=90",
        "buzhash:divisor=101,remainder=100,window=48,table=casync,min=65,max=700",
        "buzhash:divisor=128,window=33,table=cutpoint32,max=33",
    ],
    vectors: &[(
        "buzhash",
        &[
            "buzhash:avg=2048",
            "buzhash:avg=10007,window=64,max=65536,table=cutpoint32",
            "buzhash:divisor=2048,window=32,table=bita,runs=early",
            "buzhash:divisor=6153,remainder=6152,window=48,table=casync,min=2049,max=32768",
        ],
    )],
    averages: &[
        ("buzhash:avg=", AVERAGES),
        ("buzhash:table=casync,max=131072,avg=", &[256, 4096, 10_007]),
        ("buzhash:table=bita,runs=early,window=64,avg=", &[2048, 8192]),
    ],
};
