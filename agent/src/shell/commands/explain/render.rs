//! Explanations as text.

use std::fmt::Write as _;

use vipward_core::diagnosis::{
    explain::{Explanation, ServiceExplanation, link},
    finding::{Finding, State},
};

use crate::shell::commands::{
    tables::{Cell, Need, Table, paragraph},
    terminal::Screen,
};

pub fn render_service(explanation: &ServiceExplanation, screen: Screen) -> String {
    let mut text = format!("{}\n\n{}", explanation.service, steps(&explanation.steps, screen));
    for address in &explanation.addresses {
        let _ = write!(text, "\n{}\n\n{}", address.address, steps(&address.steps, screen));
    }
    let all = explanation.addresses.iter().flat_map(|address| &address.steps);
    let all = explanation.steps.iter().chain(all);
    text + &conclusion(explanation.broken, explanation.remedy.as_deref(), all, screen)
}

pub fn render(explanation: &Explanation, screen: Screen) -> String {
    let Explanation { address, broken, remedy, steps: of_it, .. } = explanation;
    let conclusion = conclusion(*broken, remedy.as_deref(), of_it.iter(), screen);
    format!("{address}\n\n{}{conclusion}", steps(of_it, screen))
}

fn steps(steps: &[Finding], screen: Screen) -> String {
    let mut table = Table::new([("", Need::Always), ("", Need::Always), ("", Need::Text)]);
    let below = |text: &str| [Cell::of(""), Cell::of(""), Cell::of(text)];
    for step in steps {
        let state = Cell::of(step.state.name()).coloured(step.state);
        table.add_row([state, step.subject.into(), step.found.as_str().into()]);
        for detail in &step.details {
            table.add_row(below(detail));
        }
        if matches!(step.state, State::Yellow | State::Unknown)
            && let Some(remedy) = &step.remedy
        {
            table.add_row(below(&format!("to do: {remedy}")));
        }
    }
    table.text(screen)
}

fn conclusion<'a>(
    broken: Option<&str>,
    remedy: Option<&str>,
    mut steps: impl Iterator<Item = &'a Finding>,
    screen: Screen,
) -> String {
    match broken {
        Some(link) => {
            let first = screen.colours.of(State::Red, &format!("The first broken step: {link}"));
            format!("\n{first}\n{}", paragraph("What to do: ", remedy.unwrap_or("see above"), screen))
        }
        None if steps.any(|step| step.state != State::Unknown && step.subject != link::CLUSTER) => {
            "\nNo inspected step is broken.\n".to_owned()
        }
        None => "\nNo step could be inspected.\n".to_owned(),
    }
}

#[cfg(test)]
mod tests;
