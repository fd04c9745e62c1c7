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

#[test]
fn validator_refuses_wrong_events() {
    let error = |text: &str| validate(&serde_json::from_str(text).expect("JSON")).is_err();
    assert!(!error(r#"{"version":1,"type":"warning","message":"x"}"#), "a warning");
    assert!(error(r#"{"version":2,"type":"warning","message":"x"}"#), "another version");
    assert!(error(r#"{"version":1,"type":"warning"}"#), "a field is missing");
    assert!(error(r#"{"version":1,"type":"warning","message":7}"#), "a wrong type");
    assert!(error(r#"{"version":1,"type":"warning","message":"x","y":1}"#), "an unknown field");
    assert!(error(r#"{"version":1,"type":"gossip","message":"x"}"#), "an unknown event");
}
