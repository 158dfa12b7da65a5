//! Every crash as a bar of its parts, shortest first, beside the limit.

use std::fmt::Write;
use std::time::Duration;

use vipward_tests::chart::escaped;

use super::Crash;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 40.0;
const BARS: f64 = 780.0;
const ROW: f64 = 9.0;
const TOP: f64 = 88.0;
const PARTS: [(&str, &str); 4] = [
    ("deposing", "the session of the dead node is ended"),
    ("taking", "another node claims the VIP"),
    ("announcing", "it announces the VIP"),
    ("following", "the client's datagrams reach it"),
];

pub(super) fn draw(crashes: &[Crash], limit: Duration, machine: &str) -> String {
    let limit = limit.as_secs_f64();
    let longest = crashes.iter().map(|crash| crash.seconds).fold(limit, f64::max);
    let x = |seconds: f64| LEFT + BARS * seconds / (longest * 1.05);
    let mut sorted: Vec<&Crash> = crashes.iter().collect();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mut svg = String::new();
    for (row, crash) in sorted.iter().enumerate() {
        let y = TOP + ROW * f64::from(u32::try_from(row).unwrap_or(u32::MAX));
        let parts =
            [crash.deposing_seconds, crash.taking_seconds, crash.announcing_seconds, crash.following_seconds];
        let mut from = 0.0;
        for ((class, _), part) in PARTS.iter().zip(parts) {
            let width = (x(from + part) - x(from)).max(0.0);
            // Writing to a String cannot fail.
            let _ = writeln!(
                svg,
                r#"<rect class="{class}" x="{:.1}" y="{y:.0}" width="{width:.1}" height="{:.0}"/>"#,
                x(from),
                ROW - 2.0
            );
            from += part;
        }
    }
    let rows = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
    let bottom = TOP + ROW * rows;
    for second in 0_u8..=60 {
        let at = x(f64::from(second));
        if at <= LEFT + BARS {
            let _ = writeln!(
                svg,
                r#"<text x="{at:.1}" y="{:.0}" text-anchor="middle">{second} s</text>"#,
                bottom + 18.0
            );
        }
    }
    for (index, (class, what)) in (0_u8..).zip(PARTS) {
        let at = LEFT + 200.0 * f64::from(index);
        let _ = writeln!(
            svg,
            r#"<rect class="{class}" x="{at:.0}" y="58" width="10" height="10"/><text x="{:.0}" y="67" font-size="10">{}</text>"#,
            at + 14.0,
            escaped(what)
        );
    }
    let height = bottom + 32.0;
    let about = escaped(machine.lines().next().unwrap_or_default());
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0}" height="{height:.0}" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="sans-serif" font-size="12">
<style>.deposing{{fill:#9aa5b1}}.taking{{fill:#2f7d4f}}.announcing{{fill:#c8832b}}.following{{fill:#3b6fb5}}.limit{{stroke:#b3261e;stroke-width:2}}.paper{{fill:#fff}}</style>
<rect class="paper" width="100%" height="100%"/>
<text x="16" y="24" font-size="15" font-weight="bold">From kill -9 of the holder's agent to the first datagram at the new holder, {} crashes</text>
<text x="16" y="44">{about}</text>
{svg}<path class="limit" d="M{:.1} {:.0}V{bottom:.0}"/>
</svg>
"#,
        sorted.len(),
        x(limit),
        TOP - 4.0
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::crash;
    use super::draw;

    #[test]
    fn the_parts_of_a_crash_lie_end_to_end_and_to_scale_and_the_shortest_crash_comes_first() {
        // 780 wide for 5.25 s.
        let crashes = [crash([4.0, 0.5, 0.25, 0.25]), crash([2.0, 0.0, 0.0, 0.0])];
        let svg = draw(&crashes, Duration::from_secs(4), "a <machine>");
        assert!(svg.contains(r#"<rect class="deposing" x="40.0" y="88" width="297.1""#), "{svg}");
        assert!(svg.contains(r#"<rect class="deposing" x="40.0" y="97" width="594.3""#), "{svg}");
        assert!(svg.contains(r#"<rect class="taking" x="634.3" y="97" width="74.3""#), "{svg}");
        assert!(svg.contains(r#"class="limit" d="M634.3 "#), "{svg}");
        assert!(svg.contains("a &lt;machine&gt;"), "{svg}");
    }
}
