//! The bar chart of replies per second, as an SVG file without fonts, scripts or colours of its own
//! needs.

use std::fmt::Write;

use vipward_tests::measure::chart::{escaped, page};

use super::figures::{Group, Item, Report, Unit};

const TITLE: &str = "Replies per second on one core (veth pair, native XDP): median and spread";
const STYLE: &str = ".ours{fill:#2f7d4f}.other{fill:#9aa5b1}.spread{stroke:#1b1f24;stroke-width:2}";
const LABELS: f64 = 350.0;
const BARS: f64 = 410.0;
const ROW: f64 = 30.0;
const TOP: f64 = 64.0;

/// Returns the rates, one bar each; what is measured twice is drawn as it was measured first.
pub(crate) fn replies(report: &Report) -> String {
    let mut items: Vec<&Item> = Vec::new();
    for item in report.items.iter().filter(|item| item.group == Group::Rate) {
        if items.iter().all(|drawn| drawn.name != item.name) {
            items.push(item);
        }
    }
    draw(&items, &report.machine.to_string())
}

fn draw(items: &[&Item], machine: &str) -> String {
    let most = items.iter().map(|item| item.most).fold(f64::MIN_POSITIVE, f64::max);
    let rows = items.iter().enumerate().fold(String::new(), |mut svg, (row, item)| {
        let y = TOP + ROW * f64::from(u32::try_from(row).unwrap_or(u32::MAX));
        let x = |value: f64| LABELS + BARS * value / most;
        let class = if item.name.starts_with("Vipward") { "ours" } else { "other" };
        let (width, middle) = (x(item.value) - LABELS, y + ROW / 2.0 - 3.0);
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>
<rect class="{class}" x="{LABELS}" y="{y:.0}" width="{width:.1}" height="{:.0}"/>
<path class="spread" d="M{:.1} {middle:.1}H{:.1}"/>
<text x="{:.0}" y="{:.0}">{}</text>"#,
            LABELS - 8.0,
            middle + 4.0,
            escaped(&item.name),
            ROW - 8.0,
            x(item.least),
            x(item.most),
            x(item.most) + 8.0,
            middle + 4.0,
            Unit::PerSecond.show(item.value),
        );
        svg
    });
    let height = TOP + ROW * f64::from(u32::try_from(items.len()).unwrap_or(u32::MAX)) + 12.0;
    page(height, STYLE, TITLE, machine.lines().next(), &rows)
}
