//! Tests of the program's mode on the host that answers.

use super::*;

/// Returns the step, with its details.
fn shown(facts: &Facts) -> String {
    let step =
        explain(facts).steps.into_iter().find(|step| step.subject == link::ATTACHED).expect("the step");
    let first = format!("{:8}  {:10}  {}", step.state.name(), step.subject, step.found);
    [first].into_iter().chain(step.details).collect::<Vec<_>>().join("\n")
}

/// Has the program run in a mode, on an interface of a kind whose driver offers native XDP or not.
fn runs(facts: &mut Facts, mode: Mode, kind: &str, offers_native: Option<bool>) {
    let state = pins(facts);
    let link = state.links.get_mut(&State::SAMPLE_IFINDEX).expect("the link");
    link.0 = mode;
    let program = link.1.program;
    let interface = eth0(state);
    interface.kind = kind.to_owned();
    (interface.xdp_programs, interface.tc_programs) = (Vec::new(), Some(Vec::new()));
    mode.note(interface, program);
    let native = offers_native.map_or_else(|| Fact::failed("no such family"), Fact::Read);
    facts.native = [(State::SAMPLE_IFINDEX, native)].into();
}

/// Description, facts before the change, the change, and the lines of the step.
type Case = (&'static str, fn() -> Facts, fn(&mut Facts), &'static [&'static str]);
const TC: &str = "green     attached    the program runs on eth0 in tc mode";
const CASES: &[Case] = &[
    (
        "native",
        at_the_holder,
        |facts| runs(facts, Mode::Native, "", Some(true)),
        &["green     attached    the program runs on eth0 in native mode"],
    ),
    (
        "a veth",
        at_the_holder,
        |facts| runs(facts, Mode::Tc, "veth", Some(true)),
        &[TC, "not in native mode: a software device gets tc"],
    ),
    (
        "beside another XDP program",
        at_the_holder,
        |facts| {
            runs(facts, Mode::Tc, "", Some(true));
            eth0(pins(facts)).xdp_programs.push(99);
        },
        &[TC, "not in native mode: another XDP program is on the interface, which takes one"],
    ),
    (
        "a driver without",
        at_the_holder,
        |facts| runs(facts, Mode::Tc, "", Some(false)),
        &[TC, "not in native mode: the driver has no native XDP; each answer costs more"],
    ),
    (
        "a driver without, in generic mode",
        at_the_holder,
        |facts| runs(facts, Mode::Generic, "", Some(false)),
        &[
            "yellow    attached    the program runs on eth0 in generic mode",
            "not in native mode: the driver has no native XDP; each answer costs more",
        ],
    ),
    (
        "a driver that refuses",
        at_the_holder,
        |facts| runs(facts, Mode::Tc, "", Some(true)),
        &[
            "yellow    attached    the program runs on eth0 in tc mode",
            "not in native mode: the driver offers native XDP, and has refused it",
        ],
    ),
    (
        "a kernel that does not say",
        at_the_holder,
        |facts| runs(facts, Mode::Tc, "", None),
        &[
            TC,
            "not in native mode: the driver has no native XDP or has refused it, or the agent was \
            started so (--attach); which is unknown: no such family",
        ],
    ),
    (
        "a driver that was not looked at",
        at_the_holder,
        |facts| {
            runs(facts, Mode::Tc, "", None);
            facts.native.clear();
        },
        &[
            TC,
            "not in native mode: the driver has no native XDP or has refused it, or the agent was \
            started so (--attach); which is unknown: the driver was not queried",
        ],
    ),
    (
        "native on a bond with ports",
        at_the_holder,
        |facts| runs(facts, Mode::Native, "bond", Some(true)),
        &[
            "yellow    attached    the program runs on eth0 in native mode",
            "native, program 40: it runs on the ports, of which each needs native XDP; and while the agent \
            is dead, no program follows a failover",
        ],
    ),
    (
        "as the file says, and the driver offers native",
        standalone,
        |facts| {
            runs(facts, Mode::Tc, "", Some(true));
            listed(facts).attach = Attach::Tc;
        },
        &[TC, "not in native mode: vipward.yaml sets it (`attach: tc`)"],
    ),
    (
        "not as the file says, and the driver offers native",
        standalone,
        |facts| {
            runs(facts, Mode::Tc, "", Some(true));
            listed(facts).attach = Attach::Native;
        },
        &[
            "yellow    attached    the program runs on eth0 in tc mode",
            "not in native mode: the driver offers native XDP, and has refused it",
        ],
    ),
    (
        "as the file says",
        standalone,
        |facts| {
            runs(facts, Mode::Tc, "", None);
            listed(facts).attach = Attach::Tc;
        },
        &[TC, "not in native mode: vipward.yaml sets it (`attach: tc`)"],
    ),
    (
        "no carrier",
        at_the_holder,
        |facts| {
            runs(facts, Mode::Native, "", Some(true));
            eth0(pins(facts)).carrier = false;
        },
        &[
            "red       attached    eth0 does not answer: up, but without carrier",
            "the program runs on eth0 in native mode",
        ],
    ),
];

#[test]
fn the_mode_is_named_with_its_interface_and_another_than_native_is_a_remark_with_its_reason() {
    for (what, facts, change, expected) in CASES {
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
    runs(&mut facts, Mode::Tc, "", Some(false));
    let because = "the driver has no native XDP; each answer costs more";
    assert_eq!(
        json(&facts),
        serde_json::json!({"interface": "eth0", "mode": "tc", "because": because}),
        "tc"
    );
    eth0(pins(&mut facts)).tc_programs = Some(Vec::new());
    assert_eq!(json(&facts), serde_json::Value::Null, "not attached");
    assert_eq!(json(&elsewhere()), serde_json::Value::Null, "elsewhere");
}
