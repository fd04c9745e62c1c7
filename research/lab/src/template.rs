//! Templates of algorithms: specs with `{target}` in the place of sizes.

use cutpoint_chunking::Spec;

/// The templates of the algorithms that learn from the data set.
pub(crate) const LEARNED: [&str; 2] = ["bfbc", "bfbc*"];

/// Checks a template, and returns the problem if it is invalid for every target.
pub(crate) fn check_template(template: &str) -> Result<(), String> {
    if LEARNED.contains(&template) {
        return Ok(());
    }
    // Every algorithm has parameters for at least one of these targets.
    let mut first = String::new();
    for target in [8192, 770, 6232, 888, 2048, 192] {
        match spec(template, target) {
            Ok(_) => return Ok(()),
            Err(message) if first.is_empty() => first = message,
            Err(_) => {}
        }
    }
    Err(format!("{template:?} is not an algorithm with parameters: {first}"))
}

pub(crate) fn spec(template: &str, target: usize) -> Result<Spec, String> {
    filled(template, target)?.parse().map_err(|error| format!("{error}"))
}

/// Returns the template with the target substituted for each `{target}`, `{target*2}`,
/// `{target/8}`.
fn filled(template: &str, target: usize) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{target") {
        let (operation, behind) =
            after.split_once('}').ok_or_else(|| "there is a { without a }".to_owned())?;
        let number = |digits: &str| digits.parse::<usize>().ok().filter(|number| *number > 0);
        let value = match operation.split_at_checked(1) {
            None => Some(target),
            Some(("*", digits)) => number(digits).and_then(|number| target.checked_mul(number)),
            Some(("/", digits)) => number(digits).map(|number| target / number),
            Some(_) => None,
        };
        let value = value.ok_or_else(|| {
            format!("{{target{operation}}} is neither {{target*N}} nor {{target/N}}")
        })?;
        text += before;
        text += &value.to_string();
        rest = behind;
    }
    Ok(text + rest)
}
