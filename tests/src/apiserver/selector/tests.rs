//! Selectors, as `kubectl` writes them.

use serde_json::json;

use super::Selector;

#[test]
fn a_selector_that_makes_no_sense_is_refused() {
    for text in ["a b", "a in", "a in (b", "=b", "a within (b)", "!"] {
        assert!(Selector::parse(text, "", &[]).is_err(), "{text:?} was taken");
    }
    for text in ["spec.nodeName", "spec.nodeName=a", "status=x"] {
        assert!(Selector::parse("", text, &["spec.type"]).is_err(), "{text:?} was taken");
    }
}

#[test]
fn a_field_that_is_missing_is_empty() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"unschedulable": true}});
    let table = [
        ("spec.nodeName=", true),
        ("spec.nodeName=a", false),
        ("spec.nodeName!=a", true),
        ("spec.unschedulable=true", true),
        ("metadata.name=p,spec.nodeName=", true),
    ];
    for (text, expected) in table {
        let selector = Selector::parse("", text, &["spec.nodeName", "spec.unschedulable"]).expect(text);
        assert_eq!(selector.matches(&pod), expected, "{text}");
    }
}
