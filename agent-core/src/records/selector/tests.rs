use super::{Selector, SelectorError};
use crate::base::samples::labels;

#[test]
fn a_selector_matches_the_labels_that_kubectl_would() {
    let node = labels(&[("zone", "a"), ("example.com/role", "edge"), ("empty", "")]);
    let table = [
        ("", true),
        ("zone", true),
        ("!zone", false),
        ("!other", true),
        ("zone=a", true),
        ("zone==a", true),
        ("zone=b", false),
        ("other=b", false),
        ("zone!=b", true),
        ("zone!=a", false),
        ("other!=b", true),
        ("zone in (a, b)", true),
        ("zone in (b,c)", false),
        ("zone notin (b,c)", true),
        ("zone notin (a)", false),
        ("other notin (a)", true),
        ("other in (a)", false),
        ("zone in (a,b),example.com/role=edge", true),
        ("zone=a,example.com/role!=edge", false),
        ("empty=", true),
    ];
    for (text, matches) in table {
        let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(selector.matches(&node), matches, "{text:?}");
        assert_eq!(selector.as_str(), text);
    }
}

#[test]
fn what_is_no_selector_is_named() {
    for text in ["zone in a", "zone ins (a)", "=a", "zone=a b", "a,,b", "!", "zone is (a)", "zone={a}"] {
        let error = text.parse::<Selector>().expect_err(text);
        assert!(matches!(error, SelectorError::Requirement { .. }), "{text:?}: {error:?}");
    }
    for text in ["zone in (a", "zone in a)", "zone in ((a))"] {
        let error = text.parse::<Selector>().expect_err(text);
        assert!(matches!(error, SelectorError::Parentheses { .. }), "{text:?}: {error:?}");
    }
}
