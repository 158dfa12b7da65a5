//! Renders a monitor's report as a timeline, one line for each event.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::report::{AnnouncementForm, DoubleKind, MonitorReport, VipReport};
use crate::measure::Answerer;

/// Most lines of one kind; further ones are only counted.
const MOST_LINES: usize = 20;

struct Line {
    at: SystemTime,
    text: String,
}

impl fmt::Display for MonitorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in self.vips.values() {
            writeln!(f, "{report}")?;
        }
        let mut lines: Vec<Line> = self.vips.values().flat_map(lines_of).collect();
        lines.extend(self.notes.iter().map(|note| Line { at: note.at, text: format!("--- {}", note.text) }));
        write_table(f, self.started, lines)
    }
}

/// Returns a summary in one line.
impl fmt::Display for VipReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gaps = self.gaps();
        write!(
            f,
            "{}: {} requests, {} answered; {} gaps, the longest {:?}; {} doubles, {} moves, {} announcements; \
             monitor late by up to {:?}",
            self.vip,
            self.requests.len(),
            self.answered(),
            gaps.len(),
            self.longest_gap(),
            self.doubles().len(),
            self.moves().len(),
            self.announcements.len(),
            self.longest_delay_of_monitor()
        )?;
        for (Answerer { sha, eth_src }, count) in self.answers_by() {
            write!(f, "; {count} answers with {sha} from {eth_src}")?;
        }
        Ok(())
    }
}

fn lines_of(report: &VipReport) -> Vec<Line> {
    let vip = report.vip;
    let mut lines = Vec::new();
    if let Some((at, first)) =
        report.requests.iter().find_map(|request| Some((request.sent_at, request.answers.first()?)))
    {
        lines.push(Line { at, text: format!("{vip} answered with {}", first.by.sha) });
    }
    let gaps = report.gaps().into_iter().map(|gap| {
        let until = gap
            .elapsed()
            .map_or("to the end".to_owned(), |elapsed| format!("answered again after {elapsed:?}"));
        (gap.from, format!("unanswered: {} requests, {until}", gap.unanswered))
    });
    let doubles = report.doubles().into_iter().map(|double| {
        let text = match double.kind {
            DoubleKind::SameRequest { first, second } => format!("answered with {first} and {second}"),
            DoubleKind::Overlap { again, after } => format!("answered with {again} again after {after}"),
        };
        (double.at, format!("DOUBLE {text}"))
    });
    let moves =
        report.moves().into_iter().map(|moved| (moved.at, format!("moved {} -> {}", moved.from, moved.to)));
    let announcements = report.announcements.iter().map(|received| {
        let form = match received.form {
            AnnouncementForm::Request => "request",
            AnnouncementForm::Reply => "reply",
            AnnouncementForm::Advertisement => "advertisement",
        };
        (received.at, format!("announced at {} ({form} from {})", received.by.sha, received.by.eth_src))
    });
    for kind in [gaps.collect::<Vec<_>>(), doubles.collect(), moves.collect(), announcements.collect()] {
        let left_out = kind.len().saturating_sub(MOST_LINES);
        let shown = kind.len() - left_out;
        for (number, (at, text)) in kind.into_iter().take(shown).enumerate() {
            let more = if left_out > 0 && number + 1 == shown {
                format!(" (and {left_out} more)")
            } else {
                String::new()
            };
            lines.push(Line { at, text: format!("{vip} {text}{more}") });
        }
    }
    lines
}

fn write_table(f: &mut fmt::Formatter<'_>, started: SystemTime, mut lines: Vec<Line>) -> fmt::Result {
    lines.sort_by_key(|line| line.at);
    for Line { at, text } in lines {
        let offset = at.duration_since(started).unwrap_or(Duration::ZERO);
        writeln!(f, "{:>10.3} s  {text}", offset.as_secs_f64())?;
    }
    Ok(())
}
