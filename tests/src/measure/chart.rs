//! Draws time series as an SVG file, one panel below the other, for the documentation.

use std::fmt::Write;

use crate::measure::prometheus::Series;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 64.0;
const ACROSS: f64 = 640.0;
const TOP: f64 = 84.0;
const PANEL: f64 = 96.0;
const GAP: f64 = 40.0;
const MARGIN: f64 = 14.0;
/// Height of the tiles and of the room below.
const TILE: f64 = 64.0;
const GOOD: &str = "#2f7d4f";
const BAD: &str = "#b3261e";
const COLOURS: [&str; 6] = ["#2f7d4f", "#3b6fb5", "#c8832b", "#b3261e", "#7b5ea7", "#5c6670"];
const SMALL: &str = r#"font-size="10""#;
const STYLE: &str = ".line{fill:none;stroke-width:1.6}.frame{fill:none;stroke:#9aa5b1;stroke-width:.6}\
                     .event{stroke:#1b1f24;stroke-width:.8;stroke-dasharray:3 3}";

/// Longest distance of points to join, in seconds.
const HOLE: f64 = 2.0;

/// Result of a query.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title, with the unit.
    pub title: String,
    /// Label that distinguishes the series.
    pub label: &'static str,
    pub series: Vec<Series>,
}

/// Present value, above the panels.
#[derive(Clone, Debug)]
pub struct Tile {
    pub title: String,
    /// With its unit.
    pub value: String,
    pub is_good: bool,
}

/// Draws tiles, and below them panels over `seconds`. Each event has its second and a name.
pub fn draw(title: &str, tiles: &[Tile], panels: &[Panel], events: &[(f64, &str)], seconds: f64) -> String {
    let x = |at: f64| LEFT + ACROSS * at / seconds;
    let mut svg = String::new();
    draw_tiles(&mut svg, tiles);
    let top = TOP + if tiles.is_empty() { 0.0 } else { TILE };
    let bottom = top + (PANEL + GAP) * number(panels.len()) - GAP;
    for (index, (at, what)) in events.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            r#"<path class="event" d="M{x:.1} {:.0}V{bottom:.0}"/><text x="{x:.1}" y="{:.0}" {SMALL}>{}</text>"#,
            top - 22.0,
            // Alternating heights keep neighbours apart.
            top - 26.0 - 12.0 * number(index % 2),
            escaped(what),
            x = x(*at),
        );
    }
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, top + (PANEL + GAP) * number(index), &x);
    }
    for at in ticks(seconds) {
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.0}" text-anchor="middle">{} s</text>"#,
            x(at),
            bottom + 20.0,
            short(at)
        );
    }
    page(bottom + 34.0, STYLE, title, None, &svg)
}

/// Draws the tiles side by side, below the title.
fn draw_tiles(svg: &mut String, tiles: &[Tile]) {
    let width = (WIDTH - 2.0 * MARGIN) / number(tiles.len()).max(1.0);
    for (index, tile) in tiles.iter().enumerate() {
        let left = MARGIN + width * number(index);
        let colour = if tile.is_good { GOOD } else { BAD };
        let _ = writeln!(
            svg,
            r#"<rect class="frame" x="{:.1}" y="40" width="{:.1}" height="{:.0}"/>
<text x="{:.1}" y="54" font-size="8.5">{}</text>
<text x="{:.1}" y="80" font-size="20" fill="{colour}">{}</text>"#,
            left + 2.0,
            width - 4.0,
            TILE - 16.0,
            left + 6.0,
            escaped(&tile.title),
            left + 6.0,
            escaped(&tile.value)
        );
    }
}

/// Returns an SVG file of this height, with a title and, below it, a line about what is shown.
pub fn page(height: f64, style: &str, title: &str, about: Option<&str>, content: &str) -> String {
    let about = about.map(|about| format!("<text x=\"16\" y=\"44\">{}</text>\n", escaped(about)));
    let (about, title) = (about.unwrap_or_default(), escaped(title));
    let size = format!(r#"width="{WIDTH:.0}" height="{height:.0}" viewBox="0 0 {WIDTH:.0} {height:.0}""#);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">
<style>{style}.paper{{fill:#fff}}</style>
<rect class="paper" width="100%" height="100%"/>
<text x="16" y="24" font-size="15" font-weight="bold">{title}</text>
{about}{content}</svg>
"#
    )
}

/// Returns the seconds that are labelled, from 0 on: multiples of 1, 2 or 5 times a power of ten,
/// eleven steps at most.
fn ticks(seconds: f64) -> Vec<f64> {
    let steps = (-1..6).flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10_f64.powi(power)));
    let Some(step) = steps.into_iter().find(|step| seconds / step <= 11.0) else { return vec![0.0] };
    // Rounding may put the last multiple a little above the end.
    (0_u8..=11).map(|tick| f64::from(tick) * step).filter(|at| *at <= seconds + step / 1000.0).collect()
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64, x: &impl Fn(f64) -> f64) {
    let points = || panel.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
    let most = points().filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let least = points().filter(|value| value.is_finite()).fold(0.0, f64::min);
    let y = |value: f64| top + PANEL - PANEL * (value - least) / (most - least);
    let _ = writeln!(
        svg,
        r#"<rect class="frame" x="{LEFT}" y="{top:.0}" width="{ACROSS}" height="{PANEL}"/>
<text x="{LEFT}" y="{:.0}">{}</text>
<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text><text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>"#,
        top - 6.0,
        escaped(&panel.title),
        LEFT - 6.0,
        top + 10.0,
        short(most),
        LEFT - 6.0,
        top + PANEL,
        short(least)
    );
    for (index, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let (mut path, mut last) = (String::new(), f64::NEG_INFINITY);
        for (at, value) in series.points.iter().filter(|(_, value)| value.is_finite()) {
            let step = if at - last > HOLE { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", x(*at), y(*value));
            last = *at;
        }
        let name = series.labels[panel.label].as_str().unwrap_or("all");
        let _ = writeln!(
            svg,
            r#"<path class="line" stroke="{colour}" d="{path}"/><text x="{:.0}" y="{:.0}" fill="{colour}">{}</text>"#,
            LEFT + ACROSS + 10.0,
            top + 12.0 + 15.0 * number(index),
            escaped(name)
        );
    }
}

fn short(value: f64) -> String {
    if value.abs() >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn number(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX))
}

/// Returns `text` with the characters escaped that mean something in SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
