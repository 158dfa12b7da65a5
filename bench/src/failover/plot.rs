//! The share of the crashes that are over after each time, for every course and system.

use std::fmt::Write;

use vipward_tests::chart::escaped;

use super::Series;
use crate::stats::Samples;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 56.0;
const ACROSS: f64 = 560.0;
const TOP: f64 = 64.0;
const DOWN: f64 = 240.0;
/// Seconds at both ends of the axis, which is logarithmic.
const ENDS: (f64, f64) = (0.1, 10.0);
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const COLOURS: [&str; 6] = ["#2f7d4f", "#3b6fb5", "#7b5ea7", "#9aa5b1", "#c8832b", "#b3261e"];

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
            r#"<path class="frame" d="M{0:.1} {TOP}V{1:.0}"/><text x="{0:.1}" y="{2:.0}" text-anchor="middle">{tick} s</text>"#,
            x(tick),
            TOP + DOWN,
            TOP + DOWN + 18.0
        );
    }
    for percent in [0, 50, 100] {
        let _ = writeln!(
            svg,
            r#"<path class="frame" d="M{LEFT} {0:.1}H{1:.0}"/><text x="{2:.0}" y="{3:.1}" text-anchor="end">{percent} %</text>"#,
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
    let height = TOP + DOWN + 34.0;
    let about = escaped(machine.lines().next().unwrap_or_default());
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0}" height="{height:.0}" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="sans-serif" font-size="12">
<style>.line{{fill:none;stroke-width:1.8}}.frame{{fill:none;stroke:#9aa5b1;stroke-width:.6}}.paper{{fill:#fff}}</style>
<rect class="paper" width="100%" height="100%"/>
<text x="16" y="24" font-size="15" font-weight="bold">Share of the crashes after which a client's datagrams arrive elsewhere, by the time since the crash</text>
<text x="16" y="44">{about}</text>
{svg}</svg>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::draw;

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
