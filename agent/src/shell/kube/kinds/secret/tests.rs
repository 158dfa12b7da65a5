use serde_json::{Value, json};
use vipward_core::records::KeyId;

use super::{Key, Keys, Read, creation, read};
use crate::shell::kernel::liveness::Fault;

fn key() -> Key {
    Key::random().expect("random bytes")
}

#[test]
fn what_is_created_is_read_back() {
    let key = key();
    let Read { keys, faults, .. } = read(&creation(&key).to_string()).expect("it is a Secret");
    assert_eq!((keys.ids(), faults), (vec![KeyId(1)], vec![]));
    assert_eq!(keys.get(KeyId(1)), Some(&key));
}

#[test]
fn a_secret_of_any_form_is_read_and_its_values_are_in_no_message() {
    let text = key().secret_text();
    let rows: [(Value, Vec<Fault>); 5] = [
        (Value::Null, vec![]),
        (json!(text), vec![]),
        (json!({"1": text}), vec![Fault::Value { id: 1 }]),
        (json!({"1": [text]}), vec![Fault::Value { id: 1 }]),
        (json!({"1": "/w=="}), vec![Fault::Value { id: 1 }]),
    ];
    for (data, wanted) in rows {
        let mut object = creation(&key());
        object["data"] = data.clone();
        let Read { keys, faults, .. } = read(&object.to_string()).expect("it is a Secret");
        assert_eq!((keys, &faults), (Keys::default(), &wanted), "{data}");
        assert!(!format!("{faults:?}").contains(&text));
    }
}
