//! The layout and the contents of the screen.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect, Size},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::Paragraph,
};
use vipward_core::diagnosis::{
    finding::State,
    live::{List, PerSecond, Rates, Row as VipRow},
    pinned::Status,
};

use crate::shell::commands::tables::{self, Cell, Need, Table, answering, or_dash};

/// The most rows of interfaces and of offenders. The VIPs get the rest of the screen.
const MOST_INTERFACES: usize = 6;
const MOST_OFFENDERS: usize = 8;
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
// Yellow letters cannot be read on white.
const YELLOW: Style = Style::new().fg(Color::Black).bg(Color::Yellow);

pub(super) struct Screen<'a> {
    /// The reading before, for the rates.
    pub(super) before: Option<&'a Status>,
    pub(super) now: &'a Status,
    /// The reason why the last reading is old.
    pub(super) trouble: Option<&'a str>,
    /// The part of the list of VIPs that is shown.
    pub(super) list: &'a List,
}

/// The contents of the screen for a width.
struct Contents {
    head: Vec<Line<'static>>,
    interfaces: Vec<Line<'static>>,
    frames: Vec<Line<'static>>,
    /// The number of VIPs in the list.
    count: usize,
    /// The place of the first VIP of the table in the list. The table has those that may be seen: a host can
    /// have 65,536, and each frame measures the table.
    first: usize,
    vips: Table,
    layout: tables::Layout,
    offenders: Vec<Line<'static>>,
}

impl Contents {
    fn of(screen: &Screen<'_>, Size { width, height }: Size) -> Self {
        let rows = screen.list.rows(screen.before, screen.now);
        let (count, most) = (rows.len(), usize::from(height).max(1));
        // A VIP needs a line at least. The more lines each needs, the fewer fit, and the later the last page
        // begins.
        let first = screen.list.top_of(count, most).min(count);
        let end = (screen.list.top_of(count, 1) + most).min(count);
        let vips = vip_table(rows.get(first..end).unwrap_or_default());
        Self {
            head: head(screen, width.into()),
            interfaces: lines(&interface_table(screen.now), width),
            frames: frame_lines(screen, width.into()),
            layout: vips.layout(Some(width.into())),
            vips,
            count,
            first,
            offenders: lines(&offender_table(screen.now), width),
        }
    }

    /// Returns the areas of heading, interfaces, frames, VIPs, offenders and keys. Each but the last is
    /// followed by a blank line.
    fn areas(&self, area: Rect) -> [Rect; 6] {
        let with_blank = |lines: usize| u16::try_from(lines + 1).unwrap_or(u16::MAX);
        let table = |lines: &[Line<'_>]| if lines.is_empty() { 0 } else { with_blank(lines.len()) };
        Layout::vertical([
            Constraint::Length(with_blank(self.head.len())),
            Constraint::Length(table(&self.interfaces)),
            Constraint::Length(with_blank(self.frames.len())),
            Constraint::Min(3),
            Constraint::Length(table(&self.offenders)),
            Constraint::Length(1),
        ])
        .areas(area)
    }

    /// Returns the number of VIPs that fit into an area.
    fn room(&self, vips: Rect) -> usize {
        let header = self.layout.header(&self.vips).len();
        let lines = usize::from(vips.height).saturating_sub(header + 1);
        (lines / self.layout.tallest(&self.vips).max(1)).max(1)
    }
}

/// Returns the number of VIPs that fit on a terminal of that size.
pub(super) fn page(size: Size, screen: &Screen<'_>) -> usize {
    let contents = Contents::of(screen, size);
    let [_, _, _, vips, _, _] = contents.areas(Rect::new(0, 0, size.width, size.height));
    contents.room(vips)
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let contents = Contents::of(screen, frame.area().as_size());
    let [heading, interfaces, frames, vips, offenders, keys] = contents.areas(frame.area());
    let room = contents.room(vips);
    let count = contents.count;
    let top = screen.list.top_of(count, room);
    let shown = (top..count).take(room).map(|row| row - contents.first);
    let shown = shown.flat_map(|row| contents.layout.row(&contents.vips, row));
    let header = contents.layout.header(&contents.vips).iter().map(|line| title(line)).collect::<Vec<_>>();
    let list: Vec<_> = header.into_iter().chain(shown.map(|line| styled(&line))).collect();
    frame.render_widget(Text::from(contents.head), heading);
    frame.render_widget(Text::from(contents.interfaces), interfaces);
    frame.render_widget(Text::from(contents.frames), frames);
    frame.render_widget(Text::from(list), vips);
    frame.render_widget(Text::from(contents.offenders), offenders);
    frame.render_widget(Paragraph::new(footer(screen, top, room, count)), keys);
}

/// Returns the lines of a table, or none for an empty table.
fn lines(table: &Table, width: u16) -> Vec<Line<'static>> {
    if table.is_empty() {
        return Vec::new();
    }
    let layout = table.layout(Some(width.into()));
    let rows = (0..table.len()).flat_map(|row| layout.row(table, row));
    layout.header(table).iter().map(|line| title(line)).chain(rows.map(|line| styled(&line))).collect()
}

fn title(line: &[tables::Piece]) -> Line<'static> {
    styled(line).style(BOLD)
}

/// Returns a line of a table with the styles of its states.
fn styled(line: &[tables::Piece]) -> Line<'static> {
    let style = |state| match state {
        None | Some(State::Green) => Style::new(),
        Some(State::Yellow) => YELLOW,
        Some(State::Unknown) => BOLD,
        Some(State::Red) => RED,
        Some(State::NotApplicable) => DIM,
    };
    line.iter().map(|piece| Span::styled(piece.text.clone(), style(piece.state))).collect()
}

fn head(screen: &Screen<'_>, width: usize) -> Vec<Line<'static>> {
    if let Some(trouble) = screen.trouble {
        let text = format!("not read any more, what is below is old: {trouble}");
        return tables::wrap(&text, width).into_iter().map(|line| Line::styled(line, RED)).collect();
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
    let deadline = vec![
        Span::raw("lease deadline "),
        Span::styled(format!("{}{left}", lease_deadline.state), style),
        Span::raw(format!(" (policy {})", lease_deadline.policy)),
    ];
    let mut parts = vec![Line::from(deadline), Line::raw(format!("VIPs {}", roles.join(", ")))];
    if screen.now.events_lost > 0 {
        parts.push(Line::styled(format!("{} events lost", screen.now.events_lost), YELLOW));
    }
    flow(parts, "   ", width)
}

/// Returns the parts on as few lines as they fit on.
fn flow(parts: Vec<Line<'static>>, gap: &'static str, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in parts {
        let style = part.style;
        let spans = part.spans.into_iter().map(|span| span.patch_style(style));
        let spans: Vec<_> = spans.collect();
        let wide: usize = spans.iter().map(Span::width).sum();
        match lines.last_mut().filter(|line| line.width() + gap.len() + wide <= width) {
            Some(line) => line.spans.extend(std::iter::once(Span::raw(gap)).chain(spans)),
            None => lines.push(Line::from(spans)),
        }
    }
    lines
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

fn interface_table(now: &Status) -> Table {
    let mut table = Table::new([
        ("INTERFACE", Need::Always),
        ("ATTACHED", Need::Always),
        ("MODE", Need::Room(1)),
        ("CARRIER", Need::Always),
        ("MAC", Need::Always),
    ]);
    for it in now.interfaces.iter().take(MOST_INTERFACES) {
        let yes = |yes: bool| {
            if yes { Cell::of("yes") } else { Cell::of("no").coloured(State::Red) }
        };
        let mac = or_dash(it.mac.as_ref());
        table.add_row([
            it.label().into(),
            yes(it.attached),
            it.mode.name().into(),
            yes(it.carrier),
            mac.into(),
        ]);
    }
    table
}

fn frame_lines(screen: &Screen<'_>, width: usize) -> Vec<Line<'static>> {
    if screen.before.is_none() {
        return vec![Line::styled("frames/s: at the next look", DIM)];
    }
    let rates = screen.now.frame_rates(screen.before);
    let rates = rates.iter().filter(|(name, _)| *name != "unrelated");
    let mut rates: Vec<String> = rates.map(|(name, rate)| format!("{name} {rate}")).collect();
    if rates.is_empty() {
        rates.push("no frames".to_owned());
    }
    let first = Line::from(vec![Span::styled("frames/s: ", BOLD), Span::raw(rates.remove(0))]);
    flow(std::iter::once(first).chain(rates.into_iter().map(Line::raw)).collect(), "  ", width)
}

fn vip_table(rows: &[VipRow<'_>]) -> Table {
    let mut table = Table::new([
        ("VIP", Need::Always),
        ("INTERFACE", Need::Always),
        ("ROLE", Need::Always),
        ("HOLDER", Need::Always),
        ("ANSWERED/s", Need::Room(2)),
        ("CONFLICTS/s", Need::Room(1)),
        ("SUPPRESSED/s", Need::Room(3)),
        ("ANSWERING", Need::Text),
    ]);
    for row in rows {
        let rate =
            |of: fn(&Rates) -> PerSecond| row.rates.map_or_else(|| "-".to_owned(), |it| of(&it).to_string());
        let role = row.vip.part.name();
        table.add_row([
            row.vip.address.to_string(),
            row.vip.interface.clone(),
            if row.vip.yielded { format!("{role} (yielded)") } else { role.to_owned() },
            or_dash(row.vip.mac.as_ref()),
            rate(|rates| rates.answered),
            rate(|rates| rates.conflicts),
            rate(|rates| rates.suppressed),
            answering(row.vip),
        ]);
        if row.is_troubled() {
            table.colour_last(State::Red);
        }
    }
    table
}

fn offender_table(now: &Status) -> Table {
    let mut table = Table::new([
        ("LAST CLAIM", Need::Always),
        ("VIP", Need::Always),
        ("INTERFACE", Need::Room(2)),
        ("KIND", Need::Always),
        ("CLAIMS", Need::Room(1)),
        ("CLAIMED BY", Need::Always),
        ("ETHERNET SOURCE", Need::Always),
        ("VENDOR", Need::Room(3)),
    ]);
    for it in now.offenders.iter().take(MOST_OFFENDERS) {
        let ago = short(Duration::try_from_secs_f64(it.last_seconds_ago).unwrap_or_default());
        let source = if it.eth_source == it.mac { "-" } else { &it.eth_source };
        table.add_row([
            Cell::of(format!("{ago} ago")),
            Cell::of(it.address.to_string()),
            Cell::of(&it.interface),
            Cell::of(it.kind).coloured(State::Yellow),
            Cell::of(it.claims.to_string()),
            Cell::of(&it.mac),
            Cell::of(source),
            Cell::of(&it.vendor),
        ]);
    }
    table
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
