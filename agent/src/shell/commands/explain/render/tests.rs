use std::net::IpAddr;

use super::*;

#[test]
fn each_step_is_followed_by_its_details_and_a_doubtful_one_by_what_to_do() {
    let step = |verdict, link, says: &str, details: &[&str]| Step {
        link,
        verdict,
        says: says.to_owned(),
        details: details.iter().map(|detail| (*detail).to_owned()).collect(),
        remedy: Some("wait".to_owned()),
    };
    let explanation = Explanation {
        address: IpAddr::from([192, 0, 2, 10]),
        broken: None,
        remedy: None,
        attached: None,
        steps: vec![
            step(Verdict::Good, Link::Entry, "held", &["one", "two"]),
            step(Verdict::Doubtful, Link::Fence, "held over", &[]),
        ],
    };
    let indent = " ".repeat(23);
    let expected = format!(
        "192.0.2.10\n\n ok        entry       held\n{indent}one\n{indent}two\n doubtful  fence       held over\n\
         {indent}to do: wait\n\nNothing that was looked at is broken.\n"
    );
    assert_eq!(render(&explanation, Colours::NONE), expected);
}
