use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "gear",
    specs: &[
        "gear:bits=1",
        "gear:bits=6",
        "gear:bits=7,cut=before",
        "gear:bits=7,min=100,max=500",
        "gear:bits=8,start=cold,min=63,max=64",
        "gear:bits=7,start=carry",
        "gear:bits=7,start=carry,cut=before,min=30,max=400",
        "gear:bits=6,table=cutpoint32,start=carry,min=90",
        "gear:bits=6,table=cutpoint32,min=33",
        "gear:bits=7,table=cdchunking",
        "gear:bits=7,level=1,normal=128,table=cdchunking",
        "gear:bits=8,level=2,normal=200,cut=before,min=64,max=1000",
        "gear:bits=7,level=3,normal=90,start=cold,min=100,max=900",
        "gear:bits=7,table=gearhash,max=300",
        "gear:bits=8,table=gearhash,start=carry",
        "gear:bits=8,table=dedup-bench,start=cold,cut=before,min=64,max=1024",
    ],
    vectors: &[
        (
            "gear",
            &[
                "gear:avg=2048",
                "gear:avg=10007,max=32768,cut=before",
                "gear:avg=10007,table=cutpoint32,start=cold",
                "gear:bits=10,start=carry",
                "gear:bits=13,min=2048,max=65536",
            ],
        ),
        (
            "gear_normalized",
            &[
                "gear:avg=8192,level=2,max=65536",
                "gear:avg=10007,level=1",
                "gear:bits=10,level=3,normal=1000,table=cdchunking",
            ],
        ),
        (
            "gear_gearhash",
            &["gear:bits=11,table=gearhash", "gear:bits=11,table=gearhash,start=carry"],
        ),
        (
            "gear_dedup_bench",
            &["gear:bits=12,table=dedup-bench,start=cold,cut=before,min=1024,max=16384"],
        ),
    ],
    averages: &[
        ("gear:avg=", AVERAGES),
        ("gear:cut=before,start=cold,table=dedup-bench,avg=", &[256, 8192]),
        ("gear:start=carry,table=gearhash,avg=", &[4096, 10_007]),
        ("gear:table=cdchunking,level=1,avg=", AVERAGES),
        ("gear:level=2,max=131072,avg=", AVERAGES),
        ("gear:table=cutpoint32,level=3,avg=", &[256, 4096, 8191, 10_007]),
    ],
};
