//! Validates events against the committed schema.

use std::sync::LazyLock;

use serde_json::Value;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../schema/json-lines-v1.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
});

/// Checks `event` against the schema. Returns the first error.
pub(crate) fn validate(event: &Value) -> Result<(), String> {
    cutpoint_terminal::event::schema::validate(&SCHEMA, event)
}
