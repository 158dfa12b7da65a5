//! Tests of the program's mode on the host that answers.

use super::*;

/// Returns the step, with its details.
fn shown(facts: &Facts) -> String {
    let step = explain(facts).steps.into_iter().find(|step| step.link == Link::Attached).expect("the step");
    let first = format!("{:8}  {:10}  {}", step.verdict.to_string(), step.link.name(), step.says);
    [first].into_iter().chain(step.details).collect::<Vec<_>>().join("\n")
}

fn runs(facts: &mut Facts, mode: Mode, veth: bool, offers_native: Option<bool>) {
    let state = pins(facts);
    state.links.get_mut(&State::SAMPLE_IFINDEX).expect("the link").0 = mode;
    eth0(state).kind = if veth { "veth" } else { "" }.to_owned();
    facts.native = offers_native.map(|offers| (State::SAMPLE_IFINDEX, offers)).into_iter().collect();
}

#[test]
fn the_mode_is_named_with_its_interface_and_generic_is_a_remark_with_its_reason() {
    type Case = (&'static str, fn() -> Facts, fn(&mut Facts), &'static [&'static str]);
    const GENERIC: &str = "ok        attached    the program runs on eth0 in generic mode";
    let cases: [Case; 7] = [
        (
            "native",
            at_the_holder,
            |facts| runs(facts, Mode::Native, false, Some(true)),
            &["ok        attached    the program runs on eth0 in native mode"],
        ),
        (
            "a veth",
            at_the_holder,
            |facts| runs(facts, Mode::Generic, true, Some(true)),
            &[
                GENERIC,
                "not in native mode: right on a veth: in native mode its other end would have to run an XDP program too",
            ],
        ),
        (
            "a driver without",
            at_the_holder,
            |facts| runs(facts, Mode::Generic, false, Some(false)),
            &[GENERIC, "not in native mode: the driver has no native XDP; each frame costs more"],
        ),
        (
            "a driver that refuses",
            at_the_holder,
            |facts| runs(facts, Mode::Generic, false, Some(true)),
            &[
                GENERIC,
                "not in native mode: the driver offers native XDP, and has refused it (often for a large MTU), unless the \
                 agent was started so (--xdp generic); `--xdp native` has the agent say why",
            ],
        ),
        (
            "a kernel that does not say",
            at_the_holder,
            |facts| runs(facts, Mode::Generic, false, None),
            &[
                GENERIC,
                "not in native mode: the driver has no native XDP or has refused it, or the agent was started so (--xdp \
                 generic); this kernel does not say which (Linux 6.3 and later do)",
            ],
        ),
        (
            "as the file says",
            standalone,
            |facts| {
                runs(facts, Mode::Generic, true, None);
                listed(facts).xdp = XdpMode::Generic;
            },
            &[GENERIC, "not in native mode: vipward.yaml asks for it (`xdp: generic`)"],
        ),
        (
            "no carrier",
            at_the_holder,
            |facts| {
                runs(facts, Mode::Native, false, Some(true));
                eth0(pins(facts)).carrier = false;
            },
            &[
                "BROKEN    attached    eth0 does not answer: no carrier",
                "the program runs on eth0 in native mode",
            ],
        ),
    ];
    for (what, facts, change, expected) in cases {
        let mut facts = facts();
        change(&mut facts);
        assert_eq!(shown(&facts), expected.join("\n"), "{what}");
    }
}

#[test]
fn programs_read_the_mode_and_none_where_this_host_does_not_answer() {
    let json =
        |facts: &Facts| serde_json::to_value(explain(facts)).expect("plain values")["attached"].clone();
    let mut facts = at_the_holder();
    assert_eq!(
        json(&facts),
        serde_json::json!({"interface": "eth0", "mode": "native", "because": null}),
        "native"
    );
    runs(&mut facts, Mode::Generic, false, Some(false));
    let because = "the driver has no native XDP; each frame costs more";
    assert_eq!(
        json(&facts),
        serde_json::json!({"interface": "eth0", "mode": "generic", "because": because}),
        "generic"
    );
    eth0(pins(&mut facts)).xdp_programs.clear();
    assert_eq!(json(&facts), serde_json::Value::Null, "not attached");
    assert_eq!(json(&elsewhere()), serde_json::Value::Null, "elsewhere");
}
