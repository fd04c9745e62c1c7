//! SeqCDC as the released code does it (dedup-bench, `seq`): pair by pair.

use crate::{Rule, Values};

pub(crate) fn rule(values: &Values) -> Rule {
    let increasing = match values.word("mode") {
        "inc" => true,
        "dec" => false,
        other => panic!("mode {other}"),
    };
    let (length, trigger) = (values.number("length"), values.number("trigger"));
    let (skip, min, max) = (values.number("skip"), values.number("min"), values.number("max"));
    Box::new(move |data| {
        let n = data.len();
        if n < min {
            return n;
        }
        let end = n.min(max);
        let (mut i, mut run, mut opposing) = (min, 0, 0);
        while i < end {
            let (a, b) = (data[i - 1], data[i]);
            if a == b {
                i += 1;
                continue;
            }
            if (b > a) == increasing {
                run += 1;
                if run == length {
                    return i;
                }
                i += 1;
            } else {
                run = 0;
                opposing += 1;
                if opposing == trigger {
                    opposing = 0;
                    i += 1 + skip;
                } else {
                    i += 1;
                }
            }
        }
        end
    })
}
