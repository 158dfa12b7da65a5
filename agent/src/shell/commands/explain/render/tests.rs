use std::net::IpAddr;

use vipward_core::diagnosis::explain::link;

use super::*;

#[test]
fn each_step_is_followed_by_its_details_and_a_doubtful_or_unknown_one_by_what_to_do() {
    let step = |state, subject, found: &str, details: &[&str]| Finding {
        subject,
        interface: None,
        state,
        found: found.to_owned(),
        details: details.iter().map(|detail| (*detail).to_owned()).collect(),
        remedy: Some("wait".to_owned()),
        cause: None,
    };
    let explanation = Explanation {
        address: IpAddr::from([192, 0, 2, 10]),
        broken: None,
        remedy: None,
        attached: None,
        steps: vec![
            step(State::Green, link::ENTRY, "held", &["one", "two"]),
            step(State::Yellow, link::LEASE_DEADLINE, "grace period", &[]),
            step(State::Unknown, link::SEGMENT, "denied", &[]),
        ],
    };
    let indent = " ".repeat(26);
    let expected = format!(
        "192.0.2.10\n\n green    entry           held\n{indent}one\n{indent}two\n \
         yellow   lease-deadline  grace period\n\
         {indent}to do: wait\n unknown  segment         denied\n\
         {indent}to do: wait\n\nNo inspected step is broken; doubtful: 1.\n"
    );
    assert_eq!(render(&explanation, Screen::PIPE), expected);
}
