//! Templates of algorithms: specs with `{target}` or `{size}` in the place of sizes.

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
    let template = sized(template, target)?;
    filled(&template, "target", target)?.parse().map_err(|error| format!("{error}"))
}

/// Returns the template with the size substituted for each `{size}`, `{size*2}`, `{size/8}`, which
/// a search for an equal mean does not vary.
pub(crate) fn sized(template: &str, size: usize) -> Result<String, String> {
    filled(template, "size", size)
}

/// Returns the template with the value substituted for each `{name}`, `{name*2}`, `{name/8}`.
fn filled(template: &str, name: &str, value: usize) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(&format!("{{{name}")) {
        let (operation, behind) =
            after.split_once('}').ok_or_else(|| "there is a { without a }".to_owned())?;
        let number = |digits: &str| digits.parse::<usize>().ok().filter(|number| *number > 0);
        let result = match operation.split_at_checked(1) {
            None => Some(value),
            Some(("*", digits)) => number(digits).and_then(|number| value.checked_mul(number)),
            Some(("/", digits)) => number(digits).map(|number| value / number),
            Some(_) => None,
        };
        let result = result.ok_or_else(|| {
            format!("{{{name}{operation}}} is neither {{{name}*N}} nor {{{name}/N}}")
        })?;
        text += before;
        text += &result.to_string();
        rest = behind;
    }
    Ok(text + rest)
}
