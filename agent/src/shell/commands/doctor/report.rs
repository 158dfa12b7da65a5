//! The report of the doctor, as text and as JSON.

use std::{collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use vipward_core::diagnosis::{
    doctor::Check,
    finding::{Finding, State},
};

use crate::shell::commands::{
    tables::{shown, table},
    terminal::Colours,
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
    /// True if states are coloured in the table.
    #[serde(skip)]
    pub colours: Colours,
}

fn summary(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": generator.subschema_for::<State>(),
        "additionalProperties": {"type": "integer", "description": "Checks with this result."},
    })
}

impl Report {
    pub fn new(checks: Vec<Finding>, passes: bool, colours: Colours) -> Self {
        let mut summary: Summary = State::ALL.map(|state| (state, 0)).into();
        for check in &checks {
            *summary.entry(check.state).or_default() += 1;
        }
        Self { passes, summary, checks, colours }
    }

    /// Returns a row with its state painted, once the widths of the columns are settled.
    fn row(&self, state: State, line: &str) -> String {
        line.trim_end().replacen(state.name(), &self.colours.of(state, state.name()), 1)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["STATE", "CHECK", "INTERFACE", "FOUND"]);
        for check in &self.checks {
            let interface = check.interface.as_deref().unwrap_or("-");
            table.add_row([check.state.name(), check.subject, interface, &check.found]);
        }
        let text = table.to_string();
        let (header, rows) = text.split_once('\n').unwrap_or((&text, ""));
        writeln!(f, "{}", header.trim_end())?;
        for (check, line) in self.checks.iter().zip(rows.lines()) {
            writeln!(f, "{}", self.row(check.state, line))?;
        }
        self.remedies(f)?;
        let counts: Vec<_> = State::ALL
            .iter()
            .map(|state| format!("{} {}", self.summary.get(state).copied().unwrap_or_default(), state.name()))
            .collect();
        writeln!(f, "\n{}", counts.join(", "))
    }
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

impl Report {
    /// Writes the remedies, the worst first.
    fn remedies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for state in State::ALL {
            for check in self.checks.iter().filter(|check| check.state == state) {
                let Some(remedy) = &check.remedy else { continue };
                let on = check.interface.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                let title = format!("{} {}{on}", state.name(), check.subject);
                writeln!(
                    f,
                    "\n{}\n  found:  {}\n  remedy: {}",
                    self.colours.of(state, &title),
                    shown(&check.found),
                    shown(remedy)
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vipward_core::diagnosis::doctor;

    use super::*;

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
    fn the_table_has_a_row_a_check_and_the_remedies_the_worst_first() {
        let expected = " STATE   CHECK    INTERFACE  FOUND
 green   kernel   -          6.18 in green
 yellow  agent    -          none runs
 red     link     eth0       down
 n/a     memlock  -          cgroup

red link eth0
  found:  down
  remedy: set it up

yellow agent
  found:  none runs
  remedy: start one

1 red, 1 yellow, 0 unknown, 1 green, 1 n/a
";
        assert_eq!(Report::new(checks(), false, Colours::NONE).to_string(), expected);
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
        let coloured = Report::new(checks(), false, Colours::ALL).to_string();
        assert!(
            coloured.contains("\n \x1b[1;32mgreen\x1b[0m   kernel   -          6.18 in green\n"),
            "{coloured:?}"
        );
        assert!(coloured.contains("\n\x1b[1;31mred link eth0\x1b[0m\n"), "{coloured:?}");
        let plain = Report::new(checks(), false, Colours::NONE).to_string();
        let mut stripped = coloured;
        for code in ["\x1b[0m", "\x1b[2m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }
}
