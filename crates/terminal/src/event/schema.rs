//! Validates events against a JSON schema, for the tests of programs. Supports only the parts of
//! JSON Schema that these need, and refuses all others.

use serde_json::Value;

/// Checks `event` against the schema `root`.
///
/// # Errors
///
/// Returns the first difference.
///
/// # Panics
///
/// Panics if the schema is invalid or has keywords that are not supported.
pub fn validate(root: &Value, event: &Value) -> Result<(), String> {
    check(root, root, event, "")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "required" | "additionalProperties" => {
            }
            "$ref" => {
                let name = rule.as_str().and_then(|name| name.strip_prefix("#/$defs/"));
                check(root, &root["$defs"][name.expect("a reference into $defs")], value, at)?;
            }
            "oneOf" => one_of(root, rule, value, at)?,
            "const" if rule != value => return Err(format!("{at}: is {value}, not {rule}")),
            "const" => {}
            "enum" => {
                let allowed = rule.as_array().expect("values");
                if !allowed.contains(value) {
                    return Err(format!("{at}: {value} is none of {rule}"));
                }
            }
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !types.iter().any(|name| is_type(name, value)) {
                    return Err(format!("{at}: {value} is no {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|value| Some(value) < rule.as_f64()) {
                    return Err(format!("{at}: {value} is below {rule}"));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}[{index}]"))?;
                }
            }
            "properties" => {
                let Some(fields) = value.as_object() else { continue };
                for (name, field) in fields {
                    match rule.get(name) {
                        Some(rule) => check(root, rule, field, &format!("{at}.{name}"))?,
                        None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                            return Err(format!("{at}: the field {name} is not in the schema"));
                        }
                        None => {}
                    }
                }
                for name in schema["required"].as_array().into_iter().flatten() {
                    if !fields.contains_key(name.as_str().expect("a name")) {
                        return Err(format!("{at}: the field {name} is missing"));
                    }
                }
            }
            other => panic!("the keyword {other} is not known here"),
        }
    }
    Ok(())
}

fn one_of(root: &Value, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    let results: Vec<_> =
        rule.as_array().expect("schemas").iter().map(|rule| check(root, rule, value, at)).collect();
    match results.iter().filter(|result| result.is_ok()).count() {
        1 => Ok(()),
        0 => {
            // The error of the intended alternative is the most useful. It is the one that does not
            // concern `type` or `command`.
            let meant = results.into_iter().filter_map(Result::err).find(|error| {
                !error.starts_with(&format!("{at}.type:"))
                    && !error.starts_with(&format!("{at}.command:"))
            });
            Err(meant.unwrap_or_else(|| format!("{at}: no such type or command")))
        }
        count => Err(format!("{at}: fits {count} schemas")),
    }
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the type {other} is not known here"),
    }
}
