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
    if let Some(link) = broken {
        let _ = writeln!(text, "{}", colours.of(State::Red, &format!("The first broken step: {link}")));
        let _ = writeln!(text, "What to do: {}", shown(remedy.unwrap_or("see above")));
        return;
    }
    let _ = match Outcome::of(steps) {
        Outcome::Broken | Outcome::Sound { doubtful: 0 } => writeln!(text, "No inspected step is broken."),
        Outcome::Sound { doubtful } => writeln!(text, "No inspected step is broken; doubtful: {doubtful}."),
        Outcome::Nothing { needs_root: false } => writeln!(text, "No step could be inspected."),
        Outcome::Nothing { needs_root: true } => {
            writeln!(text, "No step could be inspected: run it as root (sudo).")
        }
    };
}

#[cfg(test)]
mod tests;
