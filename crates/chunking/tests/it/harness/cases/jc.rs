use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "jc",
    specs: &[
        "jc:bits=2,jump=1,min=1,max=50",
        "jc:bits=6,jump=64,min=64,max=1000",
        "jc:bits=9,jump=100,min=30,max=3000",
        "jc:bits=4,jump=300,min=20,max=101",
        "jc:bits=11,jump=100,form=plakar,min=64,max=9000",
    ],
    vectors: &[(
        "jc",
        &[
            "jc:avg=2048",
            "jc:avg=10007",
            "jc:bits=11,jump=4096,form=plakar,min=2048,max=65536",
            "jc:bits=7,jump=1000,min=1,max=20000",
        ],
    )],
    averages: &[("jc:avg=", AVERAGES), ("jc:avg=", &[256, 1000])],
};
