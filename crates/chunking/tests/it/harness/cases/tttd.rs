use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "tttd",
    specs: &[
        "tttd:divisor=54,window=16,min=46,max=280",
        "tttd:divisor=100,backup=7,window=8,poly=0x11b,remainder=30,min=8,max=90",
        "tttd:divisor=1000000,backup=60,window=20,start=cold,min=100,max=700",
        "tttd:divisor=40,window=13,start=cold,cut=before,min=1,max=300",
        "tttd:divisor=64,window=48,remainder=0,start=cold,cut=before,end=backup,min=50,max=200",
        "tttd:divisor=128,window=16,cut=before,end=backup,min=30,max=256",
        "tttd:divisor=2,window=4,min=1,max=4",
    ],
    vectors: &[(
        "tttd",
        &[
            "tttd:avg=2048",
            "tttd:divisor=540,window=48,min=460,max=2800",
            "tttd:avg=10007,window=64,start=cold,cut=before,end=backup,max=16384",
            "tttd:divisor=8192,window=48,remainder=0,start=cold,cut=before,end=backup,min=4096,\
             max=16384",
        ],
    )],
    averages: &[
        ("tttd:avg=", AVERAGES),
        ("tttd:start=cold,cut=before,end=backup,window=64,max=131072,avg=", AVERAGES),
        ("tttd:window=256,avg=", &[600, 4096]),
        ("tttd:max=6000,avg=", &[4096, 5000]),
    ],
};
