use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "seqcdc",
    specs: &[
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000",
        "seqcdc:mode=dec,length=3,trigger=20,skip=17,min=1,max=900",
        "seqcdc:mode=inc,length=4,trigger=65535,skip=0,min=1,max=1000",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,equal=break",
        "seqcdc:mode=dec,length=2,trigger=1,skip=63,min=1,max=900,equal=break",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,rule=literal",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,equal=break,rule=literal",
        "seqcdc:mode=dec,length=2,trigger=65535,skip=0,min=1,max=900,equal=break,rule=literal",
        "seqcdc:mode=dec,length=32,trigger=1,skip=1,min=5,max=700,rule=literal",
        "seqcdc:mode=inc,length=6,trigger=10,skip=5000,min=6,max=700,rule=literal",
        "seqcdc:mode=inc,length=6,trigger=10,skip=5,min=100,max=100,rule=literal",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,reach=beyond",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,skipped=ignored",
        "seqcdc:mode=dec,length=3,trigger=1,skip=1,min=1,max=900,skipped=ignored",
        "seqcdc:mode=dec,length=3,trigger=2,skip=0,min=1,max=900,reach=beyond,skipped=ignored",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,rule=literal,reach=at,skipped=ignored",
    ],
    vectors: &[
        (
            "seqcdc",
            &[
                "seqcdc:paper=4k",
                "seqcdc:paper=8k,mode=dec",
                "seqcdc:paper=16k",
                "seqcdc:avg=2048",
                "seqcdc:avg=4099",
                "seqcdc:avg=10007,mode=dec",
                "seqcdc:avg=65536",
                "seqcdc:mode=inc,length=5,trigger=50,skip=0,min=1,max=777",
                "seqcdc:mode=dec,length=1,trigger=1,skip=1,min=100,max=100",
                "seqcdc:mode=inc,length=3,trigger=65535,skip=3,min=1000,max=1073741824",
            ],
        ),
        (
            "seqcdc_equal_break",
            &[
                "seqcdc:paper=8k,equal=break",
                "seqcdc:mode=dec,length=4,trigger=50,skip=100,min=999,max=5001,equal=break",
                "seqcdc:mode=inc,length=5,trigger=50,skip=0,min=1,max=7777,equal=break",
            ],
        ),
        (
            "seqcdc_literal",
            &[
                "seqcdc:paper=4k,rule=literal",
                "seqcdc:paper=8k,equal=break,rule=literal",
                "seqcdc:paper=16k,mode=dec,equal=break,rule=literal",
                "seqcdc:mode=inc,length=5,trigger=50,skip=0,min=1,max=7777,rule=literal",
                "seqcdc:mode=inc,length=6,trigger=3,skip=333,min=6,max=5001,rule=literal",
            ],
        ),
        (
            "seqcdc_skip",
            &[
                "seqcdc:paper=8k,reach=beyond",
                "seqcdc:paper=8k,skipped=ignored",
                "seqcdc:paper=4k,rule=literal,reach=at",
                "seqcdc:paper=4k,rule=literal,skipped=ignored",
                "seqcdc:paper=4k,rule=literal,reach=at,skipped=ignored",
                "seqcdc:paper=8k,equal=break,rule=literal,skipped=ignored",
                "seqcdc:mode=dec,length=4,trigger=3,skip=1,min=1,max=3000,reach=beyond,skipped=ignored",
            ],
        ),
    ],
    averages: &[("seqcdc:avg=", AVERAGES), ("seqcdc:mode=dec,avg=", &[8192])],
};
