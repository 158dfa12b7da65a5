//! The report of `who-has` as text.

use std::{fmt::Write as _, time::Duration};

use vipward_core::{
    diagnosis::{
        finding::State,
        who_has::{Latency, Report, Row, Seen, Verdict},
    },
    host::net::labelled,
};

use super::super::{
    tables::{or_dash, shown, table},
    terminal::Colours,
};

/// Returns the report as a table, with an explanation.
pub fn render(report: &Report, colours: Colours) -> String {
    let mut text = format!("{} on {}: ", report.address, labelled(&report.interface, report.vlan));
    match report.verdict {
        Verdict::NoHost => text += &colours.of(State::Yellow, "no host answers"),
        Verdict::One => text += &colours.of(State::Green, "one answers"),
        Verdict::Several => {
            let answering = report.answers.iter().filter(|row| row.answering).count();
            text += &colours.of(State::Red, &format!("CONFLICT: {answering} MACs answer"));
            text += "; clients believe whichever is first, and change their minds";
        }
    }
    let times = if report.questions == 1 { "once".to_owned() } else { format!("{} times", report.questions) };
    let each = humantime::format_duration(Duration::from_secs_f64(report.timeout_seconds));
    let _ = writeln!(text, " (probed {times} from {}, waited {each} each)", report.asked_from);
    if !report.answers.is_empty() {
        let _ = writeln!(text, "\n{}", answers(report));
    }
    for prober in &report.probing {
        let _ = writeln!(
            text,
            "\n{} ({}) probes for it too, {} times: it may be about to use the address",
            prober.mac, prober.vendor, prober.probes
        );
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {}", shown(note));
    }
    text
}

fn answers(report: &Report) -> String {
    let mut rows =
        table(&["ORDER", "MAC", "IS", "VENDOR", "ANSWERED", "FIRST", "LATENCY", "ETHERNET SOURCE", "SEEN"]);
    for row in &report.answers {
        let here = row.seen == Seen::ThisHost;
        let of_questions =
            |count: u32| if here { "-".to_owned() } else { format!("{count}/{}", report.questions) };
        rows.add_row([
            row.order.to_string(),
            row.mac.clone(),
            row.relation.name().to_owned(),
            row.vendor.clone(),
            answered(row, of_questions(row.answered)),
            of_questions(row.first),
            row.latency.as_ref().map_or_else(|| "-".to_owned(), latency),
            or_dash(row.ethernet_source.as_ref()),
            seen(row),
        ]);
    }
    rows.to_string()
}

/// Returns the number of probes that the row's host answered, and its other frames.
fn answered(row: &Row, of_questions: String) -> String {
    let more = row.replies.saturating_sub(u64::from(row.answered));
    match (more, row.announcements) {
        (0, 0) => of_questions,
        (more, 0) => format!("{of_questions} (+{more})"),
        (0, announced) => format!("{of_questions}, announced {announced}"),
        (more, announced) => format!("{of_questions} (+{more}), announced {announced}"),
    }
}

fn latency(latency: &Latency) -> String {
    let millis = |seconds: f64| {
        if latency.coarse { format!("{:.0}", seconds * 1e3) } else { format!("{:.2}", seconds * 1e3) }
    };
    let (min, max) = (millis(latency.min_seconds), millis(latency.max_seconds));
    let about = if latency.coarse { "~" } else { "" };
    if min == max { format!("{about}{min} ms") } else { format!("{about}{min}-{max} ms") }
}

fn seen(row: &Row) -> String {
    match (row.seen, row.silent_because) {
        (Seen::Wire, _) => "on the wire".to_owned(),
        (Seen::Dropped, _) => "dropped here".to_owned(),
        (Seen::ThisHost, None) => "this host answers".to_owned(),
        (Seen::ThisHost, Some(why)) => format!("this host, silent: {why}"),
    }
}
