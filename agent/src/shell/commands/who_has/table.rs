//! The report of `who-has` as text.

use std::time::Duration;

use vipward_core::{
    diagnosis::{
        finding::State,
        who_has::{Latency, Report, Row, Seen, Verdict},
    },
    host::net::labelled,
};

use super::super::{
    tables::{Need, Table, or_dash, paragraph},
    terminal::Screen,
};

/// Returns the report as a table, with an explanation.
pub fn render(report: &Report, screen: Screen) -> String {
    let (state, verdict, more) = match report.verdict {
        Verdict::NoHost => (State::Yellow, "no host answers".to_owned(), ""),
        Verdict::One => (State::Green, "one answers".to_owned(), ""),
        Verdict::Several => {
            let answering = report.answers.iter().filter(|row| row.answering).count();
            let more = "; clients believe whichever is first, and change their minds";
            (State::Red, format!("CONFLICT: {answering} MACs answer"), more)
        }
    };
    let times = if report.questions == 1 { "once".to_owned() } else { format!("{} times", report.questions) };
    let each = humantime::format_duration(Duration::from_secs_f64(report.timeout_seconds));
    let line = format!(
        "{} on {}: {verdict}{more} (probed {times} from {}, waited {each} each)",
        report.address,
        labelled(&report.interface, report.vlan),
        report.asked_from
    );
    let mut text = paragraph("", &line, screen).replacen(&verdict, &screen.colours.of(state, &verdict), 1);
    if !report.answers.is_empty() {
        text += "\n";
        text += &answers(report).text(screen);
    }
    for prober in &report.probing {
        let line = format!(
            "{} ({}) probes for it too, {} times: it may be about to use the address",
            prober.mac, prober.vendor, prober.probes
        );
        text += "\n";
        text += &paragraph("", &line, screen);
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        text += &paragraph("note: ", note, screen);
    }
    text
}

fn answers(report: &Report) -> Table {
    let mut rows = Table::new([
        ("ORDER", Need::Always),
        ("MAC", Need::Always),
        ("IS", Need::Always),
        ("VENDOR", Need::Text),
        ("ANSWERED", Need::Text),
        ("FIRST", Need::Room(1)),
        ("LATENCY", Need::Room(2)),
        ("ETHERNET SOURCE", Need::Always),
        ("SEEN", Need::Text),
    ]);
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
    rows
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
