use super::Cases;

pub(crate) const CASES: Cases = Cases {
    algorithm: "samplebyte",
    specs: &[
        "samplebyte:period=2,markers=00",
        "samplebyte:period=32,markers=00.0a.20.65.7f.80.c3.ff",
        "samplebyte:period=256,markers=20.41,max=129",
        "samplebyte:period=64,markers=01.02,max=300",
        "samplebyte:period=32,markers=0a.20.2c.41.61.65.6f.73.74.e2",
    ],
    vectors: &[(
        "samplebyte",
        &["samplebyte:period=256,markers=20.65", "samplebyte:markers=00.20.65.73,avg=96,max=500"],
    )],
    averages: &[
        ("samplebyte:markers=20.65,avg=", &[150, 200, 256]),
        ("samplebyte:markers=00.20.65.66.67.68.70.73,avg=", &[40, 64, 100, 160]),
    ],
};
