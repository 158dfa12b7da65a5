//! Explanations as text.

use std::fmt::Write as _;

use vipward_core::diagnosis::{
    explain::{Explanation, Outcome, ServiceExplanation},
    finding::{Finding, State},
};

use crate::shell::commands::{tables::shown, terminal::Colours};

pub fn render_service(explanation: &ServiceExplanation, colours: Colours) -> String {
    let mut text = format!("{}\n\n", explanation.service);
    steps(&mut text, &explanation.steps, colours);
    for address in &explanation.addresses {
        let _ = write!(text, "\n{}\n\n", address.address);
        steps(&mut text, &address.steps, colours);
    }
    let all = explanation.addresses.iter().flat_map(|address| &address.steps);
    let all = explanation.steps.iter().chain(all);
    conclusion(&mut text, explanation.broken, explanation.remedy.as_deref(), all, colours);
    text
}

pub fn render(explanation: &Explanation, colours: Colours) -> String {
    let mut text = format!("{}\n\n", explanation.address);
    steps(&mut text, &explanation.steps, colours);
    let Explanation { broken, remedy, steps, .. } = explanation;
    conclusion(&mut text, *broken, remedy.as_deref(), steps.iter(), colours);
    text
}

fn steps(text: &mut String, steps: &[Finding], colours: Colours) {
    let indent = " ".repeat(" unknown   candidates  ".len());
    for step in steps {
        let state = colours.of(step.state, &format!("{:8}", step.state.name()));
        let _ = writeln!(text, " {state}  {:10}  {}", step.subject, shown(&step.found));
        for detail in &step.details {
            let _ = writeln!(text, "{indent}{}", shown(detail));
        }
        if matches!(step.state, State::Yellow | State::Unknown)
            && let Some(remedy) = &step.remedy
        {
            let _ = writeln!(text, "{indent}to do: {}", shown(remedy));
        }
    }
}

fn conclusion<'a>(
    text: &mut String,
    broken: Option<&str>,
    remedy: Option<&str>,
    steps: impl Iterator<Item = &'a Finding>,
    colours: Colours,
) {
    text.push('\n');
    match broken {
        Some(link) => {
            let _ = writeln!(text, "{}", colours.of(State::Red, &format!("The first broken step: {link}")));
            let _ = writeln!(text, "What to do: {}", shown(remedy.unwrap_or("see above")));
        }
        None => {
            let last = match Outcome::of(steps) {
                Outcome::Broken | Outcome::Sound { doubtful: 0 } => {
                    "No inspected step is broken.\n".to_owned()
                }
                Outcome::Sound { doubtful } => {
                    format!("No inspected step is broken; doubtful: {doubtful}.\n")
                }
                Outcome::Nothing { needs_root: false } => "No step could be inspected.\n".to_owned(),
                Outcome::Nothing { needs_root: true } => {
                    "No step could be inspected: run it as root (sudo).\n".to_owned()
                }
            };
            text.push_str(&last);
        }
    }
}

#[cfg(test)]
mod tests;
