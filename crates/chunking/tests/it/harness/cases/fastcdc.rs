use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "fastcdc",
    specs: &[
        "fastcdc:level=1,min=64,normal=256,max=1024,seed=0",
        "fastcdc:level=0,min=300,normal=362,max=1500,seed=1",
        "fastcdc:level=2,min=128,normal=724,max=4000,seed=18446744073709551615",
        "fastcdc:level=3,min=256,normal=256,max=1026,seed=0",
        "fastcdc:level=1,min=1024,normal=1024,max=1024",
        "fastcdc:level=2,min=64,normal=256,max=1024,form=dedup-bench",
        "fastcdc:level=0,min=129,normal=257,max=2001,form=dedup-bench",
        "fastcdc:level=3,min=513,normal=725,max=4095,seed=77,form=dedup-bench",
    ],
    vectors: &[
        (
            "fastcdc",
            &[
                "fastcdc:avg=1024",
                "fastcdc:avg=10007,level=1",
                "fastcdc:avg=65536,seed=0xfedcba9876543210",
                "fastcdc:level=0,min=2048,normal=8192,max=65536,seed=0",
                "fastcdc:level=1,min=2048,normal=11584,max=65536,seed=0",
                "fastcdc:level=2,min=2048,normal=11586,max=65536,seed=666",
                "fastcdc:level=3,min=64,normal=256,max=1024,seed=0",
                "fastcdc:level=3,min=5794,normal=5794,max=5794,seed=0",
            ],
        ),
        (
            "fastcdc_dedup_bench",
            &[
                "fastcdc:level=2,min=2048,normal=8192,max=32768,form=dedup-bench",
                "fastcdc:level=0,min=1023,normal=4099,max=16383,form=dedup-bench",
                "fastcdc:avg=10007,form=dedup-bench",
                "fastcdc:level=3,min=64,normal=257,max=1025,seed=666,form=dedup-bench",
            ],
        ),
    ],
    averages: &[
        ("fastcdc:avg=", AVERAGES),
        ("fastcdc:form=dedup-bench,avg=", &[4096, 8192, 16_384, 50_000]),
    ],
};
