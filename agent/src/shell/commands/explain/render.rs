//! Explanations as text for people.

use std::fmt::Write as _;

use vipward_core::diagnosis::explain::{Explanation, Link, ServiceExplanation, Step, Verdict};

use crate::shell::commands::{tables::shown, terminal::Colours};

/// Returns the explanation of a Service as text for people.
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

fn steps(text: &mut String, steps: &[Step], colours: Colours) {
    let indent = " ".repeat(" not seen  candidates  ".len());
    for step in steps {
        let verdict = format!("{:8}", step.verdict.to_string());
        let verdict = match step.verdict {
            Verdict::Good => colours.good(&verdict),
            Verdict::Doubtful => colours.doubtful(&verdict),
            Verdict::Broken => colours.bad(&verdict),
            Verdict::Unseen => verdict,
        };
        let _ = writeln!(text, " {verdict}  {:10}  {}", step.link.name(), shown(&step.says));
        for detail in &step.details {
            let _ = writeln!(text, "{indent}{}", shown(detail));
        }
        if step.verdict == Verdict::Doubtful
            && let Some(remedy) = &step.remedy
        {
            let _ = writeln!(text, "{indent}to do: {}", shown(remedy));
        }
    }
}

fn conclusion<'a>(
    text: &mut String,
    broken: Option<Link>,
    remedy: Option<&str>,
    mut steps: impl Iterator<Item = &'a Step>,
    colours: Colours,
) {
    text.push('\n');
    match broken {
        Some(link) => {
            let _ = writeln!(text, "{}", colours.bad(&format!("The first broken step: {}", link.name())));
            let _ = writeln!(text, "What to do: {}", shown(remedy.unwrap_or("see above")));
        }
        None if steps.any(|step| step.verdict != Verdict::Unseen && step.link != Link::Cluster) => {
            text.push_str("Nothing that was looked at is broken.\n");
        }
        None => text.push_str("Nothing could be looked at.\n"),
    }
}

#[cfg(test)]
mod tests;
