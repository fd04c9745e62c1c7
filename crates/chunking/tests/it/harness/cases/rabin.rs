use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "rabin",
    specs: &[
        "rabin:bits=7,window=16",
        "rabin:bits=4,window=1,max=100",
        "rabin:bits=6,window=48,min=1,max=48",
        "rabin:bits=7,window=13,poly=0x11b,min=50,max=600",
        "rabin:bits=8,window=3,poly=0x10000008d",
        "rabin:bits=8,window=16,min=64,max=1024",
        "rabin:bits=6,window=16,start=one",
        "rabin:bits=7,window=5,poly=0x11b,start=one,min=3,max=4",
        "rabin:bits=8,window=20,start=one,min=64,max=700",
    ],
    vectors: &[(
        "rabin",
        &[
            "rabin:avg=2048",
            "rabin:avg=10007,window=64,max=65536",
            "rabin:bits=11,window=32",
            "rabin:bits=13,window=64,poly=0x2df7f4d8e10b5f,min=4096,max=65536",
            "rabin:bits=12,window=48,start=one,min=20,max=16384",
        ],
    )],
    averages: &[
        ("rabin:avg=", AVERAGES),
        ("rabin:max=131072,window=64,avg=", AVERAGES),
        ("rabin:start=one,window=256,avg=", &[256, 4096]),
    ],
};
