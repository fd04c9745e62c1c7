use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "ultracdc",
    specs: &[
        "ultracdc:min=8,normal=8,max=24",
        "ultracdc:min=64,normal=300,max=1000",
        "ultracdc:min=101,normal=103,max=777,lest=3",
        "ultracdc:min=100,normal=2000,max=2003,lest=1",
    ],
    vectors: &[(
        "ultracdc",
        &[
            "ultracdc:avg=4096",
            "ultracdc:min=2048,normal=8192,max=65536",
            "ultracdc:min=64,normal=64,max=20000,lest=16",
        ],
    )],
    averages: &[
        ("ultracdc:avg=", AVERAGES.split_at(1).1),
        ("ultracdc:max=131072,lest=100,avg=", &[2304, 2500, 8192]),
    ],
};
