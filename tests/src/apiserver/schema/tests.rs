//! Schemas: what they keep, and how what they describe merges.

use serde_json::json;

use super::{Schema, Shape};

#[test]
fn what_preserves_unknown_fields_keeps_them_below_and_nothing_beside() {
    let schema = Schema::parse(&json!({
        "type": "object",
        "properties": {
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
    }));
    let mut object =
        json!({"metadata": {"x": 1}, "open": {"x": {"y": 1}}, "map": {"k": {"a": "b", "c": 1}}, "z": 1});
    let mut unknown = Vec::new();
    schema.prune(&mut object, &mut unknown);
    assert_eq!(object, json!({"metadata": {"x": 1}, "open": {"x": {"y": 1}}, "map": {"k": {"a": "b"}}}));
    unknown.sort();
    assert_eq!(unknown, ["map.k.c", "z"]);
}

#[test]
fn an_integer_or_a_string_may_be_either_and_a_null_must_be_allowed() {
    let schema = Schema::parse(&json!({
        "type": "object",
        "properties": {
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "string", "nullable": true},
            "strict": {"type": "string"},
        },
    }));
    let table = [
        (json!({"port": 80}), 0),
        (json!({"port": "http"}), 0),
        (json!({"port": true}), 1),
        (json!({"free": null}), 0),
        (json!({"strict": null}), 1),
    ];
    for (object, expected) in table {
        let mut faults = Vec::new();
        schema.check(&object, "", &mut faults);
        assert_eq!(faults.len(), expected, "{object}: {faults:?}");
    }
    let mut object = json!({"free": null, "strict": null});
    schema.drop_nulls(&mut object);
    assert_eq!(object, json!({"free": null}));
}

#[test]
fn lists_are_one_value_unless_the_schema_says_how_they_merge() {
    let list = |extra: serde_json::Value| {
        let mut schema = json!({"type": "array", "items": {"type": "object"}});
        for (name, value) in extra.as_object().expect("an object") {
            schema[name] = value.clone();
        }
        Schema::parse(&schema).shape()
    };
    assert!(matches!(list(json!({})), Shape::Whole));
    assert!(matches!(list(json!({"x-kubernetes-list-type": "set"})), Shape::Set));
    let keyed = list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}));
    assert!(matches!(keyed, Shape::ListMap { keys, .. } if keys.len() == 1));
}
