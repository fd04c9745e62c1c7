use super::Cases;

pub(crate) const CASES: Cases = Cases {
    algorithm: "bfbc",
    specs: &[
        "bfbc:pairs=0000,min=2,max=2",
        "bfbc:pairs=0102.6520.7320.ffff,min=40",
        "bfbc:pairs=0000.0001.0100.7f80.fefd,min=100,max=500",
        "bfbc:pairs=none,min=50,max=900",
        "bfbc:pairs=0000.0102.1234.2074.4142.6520.7320.7f80.8001.abcd.fefd.ffff,min=9",
    ],
    vectors: &[(
        "bfbc",
        &[
            "bfbc:pairs=6520.2074.7468,min=384",
            "bfbc:pairs=0001.1234.2222.fffe,min=2,max=20000",
            "bfbc:pairs=none,min=2",
        ],
    )],
    averages: &[],
};
