//! The share of the crashes that are over after each time, for every course and system.

use std::fmt::Write;

use serde::Serialize;
use vipward_tests::measure::chart::{escaped, page};

use crate::report::Samples;

const TITLE: &str = "Share of the crashes after which a client's datagrams arrive elsewhere, \
                     by the time since the crash";
const STYLE: &str = ".line{fill:none;stroke-width:1.8}.frame{fill:none;stroke:#9aa5b1;stroke-width:.6}";
const LEFT: f64 = 56.0;
const ACROSS: f64 = 560.0;
const TOP: f64 = 64.0;
const DOWN: f64 = 240.0;
/// Seconds at both ends of the axis, which is logarithmic.
const ENDS: (f64, f64) = (0.1, 10.0);
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const MIDDLE: &str = r#"text-anchor="middle""#;
const END: &str = r#"text-anchor="end""#;
const COLOURS: [&str; 6] = ["#2f7d4f", "#3b6fb5", "#7b5ea7", "#9aa5b1", "#c8832b", "#b3261e"];

/// Times until another host has the VIP, of one course or system.
#[derive(Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    /// Seconds until the client's datagrams arrive there.
    pub(super) seconds: Vec<f64>,
}

pub(super) fn draw(series: &[Series], machine: &str) -> String {
    let x = |seconds: f64| {
        let (from, to) = ENDS;
        LEFT + ACROSS * (seconds.clamp(from, to) / from).ln() / (to / from).ln()
    };
    let y = |percent: u32| TOP + DOWN * (1.0 - f64::from(percent) / 100.0);
    let mut svg = String::new();
    for tick in TICKS {
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            r#"<path class="frame" d="M{x:.1} {TOP}V{:.0}"/><text x="{x:.1}" y="{:.0}" {MIDDLE}>{tick} s</text>"#,
            TOP + DOWN,
            TOP + DOWN + 18.0,
            x = x(tick),
        );
    }
    for percent in [0, 50, 100] {
        let _ = writeln!(
            svg,
            r#"<path class="frame" d="M{LEFT} {:.1}H{:.0}"/><text x="{:.0}" y="{:.1}" {END}>{percent} %</text>"#,
            y(percent),
            LEFT + ACROSS,
            LEFT - 6.0,
            y(percent) + 4.0
        );
    }
    for ((index, series), colour) in (0_u8..).zip(series).zip(COLOURS.into_iter().cycle()) {
        let samples: Samples = series.seconds.iter().copied().collect();
        let mut path = format!("M{:.1} {:.1}", x(samples.min()), y(0));
        for percent in 1..=100 {
            let _ = write!(
                path,
                "H{:.1}V{:.1}",
                x(samples.percentile(percent)),
                y(u32::try_from(percent).unwrap_or(100))
            );
        }
        let _ = writeln!(
            svg,
            r#"<path class="line" stroke="{colour}" d="{path}"/><text x="{:.0}" y="{:.0}" fill="{colour}">{}</text>"#,
            LEFT + ACROSS + 12.0,
            TOP + 12.0 + 18.0 * f64::from(index),
            escaped(&format!("{}: {}", series.name, series.seconds.len()))
        );
    }
    page(TOP + DOWN + 34.0, STYLE, TITLE, machine.lines().next(), &svg)
}

#[cfg(test)]
mod tests {
    use super::{Series, draw};

    #[test]
    fn a_line_climbs_at_each_crash_on_a_logarithmic_axis() {
        let series = [Series { name: "a <name>".to_owned(), seconds: vec![10.0, 1.0] }];
        let svg = draw(&series, "a <machine>");
        // Half of the crashes are over after a second, which is in the middle of the axis.
        assert!(svg.contains("M336.0 304.0H336.0V301.6"), "{svg}");
        assert!(svg.contains("H336.0V184.0H616.0V181.6") && svg.contains("H616.0V64.0\""), "{svg}");
        assert!(svg.contains("a &lt;name&gt;: 2") && svg.contains("a &lt;machine&gt;"), "{svg}");
    }
}
