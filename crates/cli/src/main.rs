//! cutpoint
fn main() {}
