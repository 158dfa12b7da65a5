//! The report of the doctor, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use vipward_core::diagnosis::{
    doctor::{Check, subjects},
    finding::{Finding, State},
};

use crate::shell::commands::{
    tables::{Cell, Need, Table, paragraph},
    terminal::Screen,
};

/// The number of checks with each result.
pub type Summary = BTreeMap<State, usize>;

/// The checks of a host (docs/reference/doctor.md).
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// True if the host passes: nothing is red. With `--strict`, nothing is yellow or unknown
    /// either.
    pub passes: bool,
    /// The number of checks with each result. Zeros are there, too.
    #[schemars(schema_with = "summary")]
    pub summary: Summary,
    /// The checks, those of the host first.
    pub checks: Vec<Finding>,
}

fn summary(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": generator.subschema_for::<State>(),
        "additionalProperties": {"type": "integer", "description": "Checks with this result."},
    })
}

impl Report {
    pub fn new(checks: Vec<Finding>, passes: bool) -> Self {
        let mut summary: Summary = State::ALL.map(|state| (state, 0)).into();
        for check in &checks {
            *summary.entry(check.state).or_default() += 1;
        }
        Self { passes, summary, checks }
    }

    /// Returns the checks as text: all, or those that something is to be done about. What only root may
    /// read is one line.
    pub fn text(&self, all: bool, screen: Screen) -> String {
        let is_quiet = |check: &Finding| match check.state {
            State::Green | State::NotApplicable => true,
            State::Unknown => check.needs_root(),
            State::Red | State::Yellow => false,
        };
        let rows: Vec<&Finding> = self.checks.iter().filter(|check| all || !is_quiet(check)).collect();
        let mut parts = Vec::new();
        if !rows.is_empty() {
            parts.push(table(&rows).text(screen));
        }
        parts.extend(self.remedies(screen));
        parts.push(self.closing(all, screen));
        parts.join("\n")
    }

    /// Returns each remedy below the checks that it is for, the worst first.
    fn remedies(&self, screen: Screen) -> Vec<String> {
        let mut remedies: Vec<(&str, Vec<&Finding>)> = Vec::new();
        for state in State::ALL {
            for check in self.checks.iter().filter(|check| check.state == state && !check.needs_root()) {
                let Some(remedy) = check.remedy.as_deref() else { continue };
                match remedies.iter_mut().find(|(known, _)| *known == remedy) {
                    Some((_, checks)) => checks.push(check),
                    None => remedies.push((remedy, vec![check])),
                }
            }
        }
        let of_one = |(remedy, checks): (&str, Vec<&Finding>)| {
            let title = |check: &&Finding| {
                let on = check.interface.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                screen.colours.of(check.state, &format!("{} {}{on}", check.state.name(), check.subject))
            };
            let titles: Vec<_> = checks.iter().map(title).collect();
            format!("{}\n{}", titles.join(", "), paragraph("  ", remedy, screen))
        };
        remedies.into_iter().map(of_one).collect()
    }

    /// Returns the closing lines: the checks that need other rights, and the number of each result.
    fn closing(&self, all: bool, screen: Screen) -> String {
        let hidden: Vec<_> = self.checks.iter().filter(|check| check.needs_root()).collect();
        let mut text = String::new();
        if !hidden.is_empty() {
            let names: BTreeSet<_> = hidden.iter().map(|check| check.subject).collect();
            let names: Vec<_> = names.into_iter().collect();
            let need = if hidden.len() == 1 { "check needs" } else { "checks need" };
            let line = format!("{} {need} root (sudo vipward doctor): {}", hidden.len(), names.join(", "));
            text += &(paragraph("", &line, screen) + "\n");
        }
        let counts = State::ALL.iter().map(|state| {
            format!("{} {}", self.summary.get(state).copied().unwrap_or_default(), state.name())
        });
        let how = if all { "" } else { " (--all shows every check)" };
        text + &paragraph("", &(counts.collect::<Vec<_>>().join(", ") + how), screen)
    }
}

/// Returns the rows, below their subjects.
fn table(rows: &[&Finding]) -> Table {
    let mut table = Table::new([
        ("STATE", Need::Always),
        ("CHECK", Need::Always),
        ("INTERFACE", Need::Always),
        ("FOUND", Need::Text),
    ]);
    for (subject, names) in subjects() {
        let mut rows = rows.iter().filter(|check| names.contains(&check.subject)).peekable();
        if rows.peek().is_some() {
            table.add_heading(subject);
        }
        for check in rows {
            let interface = check.interface.as_deref().unwrap_or("-");
            let state = Cell::of(check.state.name()).coloured(check.state);
            table.add_row([state, check.subject.into(), interface.into(), check.found.as_str().into()]);
        }
    }
    table
}

/// Returns checks as text.
pub fn described(checks: &[Check]) -> String {
    let of_one = |check: &Check| {
        let parts = [
            ("reads", Some(check.reads)),
            ("yellow", check.yellow),
            ("red", check.red),
            ("note", check.note),
        ];
        let lines = parts.into_iter().filter_map(|(title, words)| {
            let title = format!("{title}:");
            Some(format!("  {title:<8}{}\n", words?))
        });
        format!("{}\n{}", check.name, lines.collect::<String>())
    };
    checks.iter().map(of_one).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use vipward_core::diagnosis::doctor;

    use super::*;
    use crate::shell::commands::terminal::Colours;
    use vipward_core::diagnosis::fact::Cause;

    fn check(
        check: &'static str,
        interface: Option<&str>,
        state: State,
        found: &str,
        remedy: Option<&str>,
    ) -> Finding {
        let owned = |text: &str| text.to_owned();
        Finding {
            subject: check,
            interface: interface.map(owned),
            state,
            found: owned(found),
            details: Vec::new(),
            remedy: remedy.map(owned),
            cause: (remedy == Some("run it as root (sudo)")).then_some(Cause::Denied),
        }
    }

    fn checks() -> Vec<Finding> {
        vec![
            check("kernel", None, State::Green, "6.18 in green", None),
            check("agent", None, State::Yellow, "none runs", Some("start one")),
            check("link", Some("eth0"), State::Red, "down", Some("set it up")),
            check("memlock", None, State::NotApplicable, "cgroup", None),
        ]
    }

    #[test]
    fn all_checks_are_below_their_subjects_and_the_remedies_the_worst_first() {
        let expected = " STATE   CHECK    INTERFACE  FOUND
host
 green   kernel   -          6.18 in green
 n/a     memlock  -          cgroup
agent and pins
 yellow  agent    -          none runs
interfaces
 red     link     eth0       down

red link eth0
  set it up

yellow agent
  start one

1 red, 1 yellow, 0 unknown, 1 green, 1 n/a
";
        assert_eq!(Report::new(checks(), false).text(true, Screen::PIPE), expected);
    }

    #[test]
    fn what_is_well_or_does_not_apply_is_only_counted() {
        let text = Report::new(checks(), false).text(false, Screen::PIPE);
        assert!(!text.contains("kernel") && !text.contains("memlock") && !text.contains("host\n"), "{text}");
        assert!(text.contains("\n yellow  agent  -          none runs\n"), "{text}");
        assert!(
            text.ends_with("\n1 red, 1 yellow, 0 unknown, 1 green, 1 n/a (--all shows every check)\n"),
            "{text}"
        );
        let well = Report::new(vec![checks().swap_remove(0)], true).text(false, Screen::PIPE);
        assert_eq!(well, "0 red, 0 yellow, 0 unknown, 1 green, 0 n/a (--all shows every check)\n");
    }

    #[test]
    fn a_remedy_for_several_checks_and_what_needs_root_are_printed_once() {
        let root = Some("run it as root (sudo)");
        let checks = vec![
            check("bpffs", None, State::Red, "on no bpffs", Some("mount one")),
            check("pins", None, State::Unknown, "permission denied", root),
            check("tc", Some("eth0"), State::Unknown, "not permitted", root),
            check("tc", Some("eth1"), State::Unknown, "not permitted", root),
            check("agent", None, State::Yellow, "none runs", Some("mount one")),
        ];
        let expected = " STATE   CHECK  INTERFACE  FOUND
agent and pins
 red     bpffs  -          on no bpffs
 yellow  agent  -          none runs

red bpffs, yellow agent
  mount one

3 checks need root (sudo vipward doctor): pins, tc

1 red, 1 yellow, 3 unknown, 0 green, 0 n/a (--all shows every check)
";
        assert_eq!(Report::new(checks, false).text(false, Screen::PIPE), expected);
    }

    #[test]
    fn a_description_has_no_line_for_a_state_that_a_check_never_has() {
        let btf = doctor::CHECKS.iter().filter(|it| ["btf", "kube-proxy"].contains(&it.name));
        let expected = "btf
  reads:  /sys/kernel/btf/vmlinux
  red:    it is missing

kube-proxy
  reads:  whether kube-proxy runs, and whether in IPVS mode
  note:   never yellow or red
";
        assert_eq!(described(&btf.copied().collect::<Vec<_>>()), expected);
    }

    #[test]
    fn only_the_state_is_coloured_and_the_columns_stay_where_they_are() {
        let in_colours = Screen { colours: Colours::ALL, ..Screen::PIPE };
        let coloured = Report::new(checks(), false).text(true, in_colours);
        assert!(
            coloured.contains("\n \x1b[32mgreen\x1b[0m   kernel   -          6.18 in green\n"),
            "{coloured:?}"
        );
        assert!(coloured.contains("\n\x1b[1;31mred link eth0\x1b[0m\n"), "{coloured:?}");
        let plain = Report::new(checks(), false).text(true, Screen::PIPE);
        let mut stripped = coloured;
        for code in ["\x1b[0m", "\x1b[2m", "\x1b[1;31m", "\x1b[32m", "\x1b[30;43m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn on_a_narrow_terminal_each_line_fits_and_no_word_is_cut() {
        let found = "claims of 02:00:00:00:00:03 (locally administered) on 2001:db8:1111:2222:3333:4444:5555:6666 last";
        let remedy = format!("find that host: {found}");
        let checks = vec![check("unknown-hosts", None, State::Red, found, Some(&remedy))];
        let report = Report::new(checks, false);
        for width in 60..120 {
            let text = report.text(false, Screen { width: Some(width), ..Screen::PIPE });
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            for word in found.split(' ') {
                assert!(text.contains(word), "{word} at {width}:\n{text}");
            }
        }
    }
}
