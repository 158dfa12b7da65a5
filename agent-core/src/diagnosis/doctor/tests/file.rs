use super::*;
use State::{Green, NotApplicable, Unknown, Yellow};

#[test]
fn a_file_that_the_agent_has_not_taken_is_yellow() {
    assert_rows(
        None,
        &[
            (
                "taken",
                |_| {},
                "config",
                Green,
                &["/etc/vipward/vipward.yaml is in force, as it was read 1h ago"],
                &[],
            ),
            (
                "refused",
                |it| {
                    let why = "vipward.yaml:3:1: unknown key `fences`".to_owned();
                    it.file.read_mut().refused = Some(Refusal { why, seconds_ago: 61 });
                },
                "config",
                Yellow,
                &[
                    "the file on disk was refused 1m 1s ago (vipward.yaml:3:1: unknown key `fences`)",
                    "the agent runs with the one that it read 1h ago",
                ],
                &["vipward agent --check --config /etc/vipward/vipward.yaml", "The next start fails"],
            ),
            (
                "in a cluster",
                |it| it.contents_mut().lease_deadline.session = 7,
                "config",
                NotApplicable,
                &["of a cluster"],
                &[],
            ),
            ("no agent", |it| it.agent = Read(Agent::None), "config", NotApplicable, &["no agent runs"], &[]),
            (
                "no answer",
                |it| it.file = Fact::failed("connection refused"),
                "config",
                Unknown,
                &["connection refused"],
                &[],
            ),
        ],
    );
}
