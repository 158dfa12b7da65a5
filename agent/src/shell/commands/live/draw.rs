//! The layout and the contents of the screen.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect, Size},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table},
};
use vipward_core::diagnosis::{
    live::{List, PerSecond, Rates, Row as VipRow},
    pinned::Status,
};

use crate::shell::commands::tables::{answering, or_dash};

/// The most rows of interfaces and of offenders. The VIPs get the rest of the screen.
const MOST_INTERFACES: usize = 6;
const MOST_OFFENDERS: usize = 8;
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const YELLOW: Style = Style::new().fg(Color::Yellow);

pub(super) struct Screen<'a> {
    /// The reading before, for the rates.
    pub(super) before: Option<&'a Status>,
    pub(super) now: &'a Status,
    /// The reason why the last reading is old.
    pub(super) trouble: Option<&'a str>,
    /// The part of the list of VIPs that is shown.
    pub(super) list: &'a List,
}

/// Returns the areas of heading, interfaces, frames, VIPs, offenders and keys.
fn areas(area: Rect, now: &Status) -> [Rect; 6] {
    let lines = |rows: usize, most: usize| {
        if rows == 0 { 0 } else { u16::try_from(rows.min(most) + 2).unwrap_or(u16::MAX) }
    };
    let interfaces = lines(now.interfaces.len(), MOST_INTERFACES);
    let offenders = lines(now.offenders.len(), MOST_OFFENDERS);
    Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(interfaces),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(offenders),
        Constraint::Length(1),
    ])
    .areas(area)
}

/// Returns the number of VIPs that fit on a terminal of that size.
pub(super) fn page(size: Size, now: &Status) -> usize {
    let [_, _, _, vips, _, _] = areas(Rect::new(0, 0, size.width, size.height), now);
    usize::from(vips.height.saturating_sub(2)).max(1)
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let [heading, interfaces, frames, vips, offenders, keys] = areas(frame.area(), screen.now);
    frame.render_widget(Paragraph::new(head(screen)), heading);
    frame.render_widget(interface_table(screen.now), interfaces);
    frame.render_widget(Paragraph::new(frame_line(screen)), frames);
    let rows = screen.list.rows(screen.before, screen.now);
    let room = usize::from(vips.height.saturating_sub(2)).max(1);
    let top = screen.list.top_of(rows.len(), room);
    let visible = rows.iter().skip(top).take(room);
    frame.render_widget(vip_table(visible), vips);
    frame.render_widget(offender_table(screen.now), offenders);
    frame.render_widget(Paragraph::new(footer(screen, top, room, rows.len())), keys);
}

fn head(screen: &Screen<'_>) -> Line<'static> {
    if let Some(trouble) = screen.trouble {
        return Line::styled(format!("not read any more, what is below is old: {trouble}"), RED);
    }
    let lease_deadline = &screen.now.lease_deadline;
    let style = match lease_deadline.state {
        "valid" => BOLD,
        "grace period" => YELLOW,
        _ => RED,
    };
    let left = match lease_deadline.countdown() {
        Duration::ZERO => String::new(),
        left => format!(" {}", short(left)),
    };
    let roles: Vec<_> = screen.now.roles().iter().map(|(role, count)| format!("{count} {role}")).collect();
    let mut spans = vec![
        Span::raw("lease deadline "),
        Span::styled(format!("{}{left}", lease_deadline.state), style),
        Span::raw(format!(" (policy {})   VIPs {}", lease_deadline.policy, roles.join(", "))),
    ];
    if screen.now.events_lost > 0 {
        spans.push(Span::styled(format!("   {} events lost", screen.now.events_lost), YELLOW));
    }
    spans.into()
}

/// Returns a time in seconds to a tenth, or from a minute on in two units.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

fn heading<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names.map(Cell::from)).style(BOLD)
}

fn interface_table(now: &Status) -> Table<'static> {
    let rows = now.interfaces.iter().take(MOST_INTERFACES).map(|it| {
        let yes = |yes: bool| if yes { Cell::from("yes") } else { Cell::from("no").style(RED) };
        Row::new([
            Cell::from(it.label()),
            yes(it.attached),
            Cell::from(it.mode.name()),
            yes(it.carrier),
            Cell::from(or_dash(it.mac.as_ref())),
        ])
    });
    let widths = [15, 8, 7, 7, 17].map(Constraint::Length);
    Table::new(rows, widths).header(heading(["INTERFACE", "ATTACHED", "MODE", "CARRIER", "MAC"]))
}

fn frame_line(screen: &Screen<'_>) -> Line<'static> {
    if screen.before.is_none() {
        return Line::styled("frames/s: at the next look", DIM);
    }
    let rates: Vec<_> = screen
        .now
        .frame_rates(screen.before)
        .iter()
        .filter(|(name, _)| *name != "unrelated")
        .map(|(name, rate)| format!("{name} {rate}"))
        .collect();
    let rates = if rates.is_empty() { "no frames".to_owned() } else { rates.join("  ") };
    Line::from(vec![Span::styled("frames/s: ", BOLD), Span::raw(rates)])
}

fn vip_table<'a>(rows: impl Iterator<Item = &'a VipRow<'a>>) -> Table<'static> {
    let rows = rows.map(|row| {
        let rate =
            |of: fn(&Rates) -> PerSecond| row.rates.map_or_else(|| "-".to_owned(), |it| of(&it).to_string());
        let role = row.vip.part.name();
        let role = if row.vip.yielded { format!("{role} (yielded)") } else { role.to_owned() };
        let style = if row.is_troubled() { RED } else { Style::new() };
        Row::new([
            Cell::from(row.vip.address.to_string()),
            Cell::from(row.vip.interface.clone()),
            Cell::from(role),
            Cell::from(or_dash(row.vip.mac.as_ref())),
            Cell::from(rate(|rates| rates.answered)),
            Cell::from(rate(|rates| rates.conflicts)),
            Cell::from(rate(|rates| rates.suppressed)),
            Cell::from(answering(row.vip)),
        ])
        .style(style)
    });
    let fixed = [15, 15, 17, 17, 10, 11, 12].map(Constraint::Length);
    let widths = fixed.into_iter().chain([Constraint::Min(9)]);
    let names =
        ["VIP", "INTERFACE", "ROLE", "HOLDER", "ANSWERED/s", "CONFLICTS/s", "SUPPRESSED/s", "ANSWERING"];
    Table::new(rows, widths).header(heading(names))
}

fn offender_table(now: &Status) -> Table<'static> {
    let rows = now.offenders.iter().take(MOST_OFFENDERS).map(|it| {
        let ago = short(Duration::try_from_secs_f64(it.last_seconds_ago).unwrap_or_default());
        let source = if it.eth_source == it.mac { "-".to_owned() } else { it.eth_source.clone() };
        Row::new([
            Cell::from(format!("{ago} ago")),
            Cell::from(it.address.to_string()),
            Cell::from(it.interface.clone()),
            Cell::from(it.kind).style(YELLOW),
            Cell::from(it.claims.to_string()),
            Cell::from(it.mac.clone()),
            Cell::from(source),
            Cell::from(it.vendor.clone()),
        ])
    });
    let fixed = [12, 15, 15, 9, 10, 17, 17].map(Constraint::Length);
    let widths = fixed.into_iter().chain([Constraint::Min(0)]);
    let names =
        ["LAST CLAIM", "VIP", "INTERFACE", "KIND", "CLAIMS", "CLAIMED BY", "ETHERNET SOURCE", "VENDOR"];
    Table::new(rows, widths).header(heading(names))
}

fn footer(screen: &Screen<'_>, top: usize, room: usize, count: usize) -> Line<'static> {
    let all = screen.now.vips.len();
    let shown = match count {
        0 => format!("none of {all}"),
        _ => format!("{}-{} of {count}", top + 1, (top + room).min(count)),
    };
    let filter = match (screen.list.typing, screen.list.filter.as_str()) {
        (true, filter) => format!("   filter: {filter}_"),
        (false, "") => String::new(),
        (false, filter) => format!("   filter: {filter} (Esc: all {all})"),
    };
    Line::styled(format!("q quit  / filter  up, down, page up, page down   {shown}{filter}"), DIM)
}
