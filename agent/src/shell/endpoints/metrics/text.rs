//! The two text formats of the page, and the choice between them.

use std::fmt::{self, Write as _};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    registry::Registry,
};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4, which is the default.
    Prometheus,
}

impl Format {
    /// Returns the format for a scraper with this `Accept` header: `OpenMetrics` if it prefers that
    /// or likes both equally.
    pub fn accepted(accept: &str) -> Self {
        let (mut open, mut plain) = (0.0_f32, None);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
            match kind {
                "application/openmetrics-text" => open = open.max(quality),
                "text/plain" | "text/*" | "*/*" => plain = Some(plain.unwrap_or(0.0_f32).max(quality)),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain.unwrap_or(0.0) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns a page with these metrics, and with `others`, which are in the format already.
pub(super) fn page(format: Format, registries: &[&Registry], others: &str) -> Result<String, fmt::Error> {
    let mut page = String::new();
    for registry in registries {
        encode_registry(&mut page, registry)?;
    }
    Ok(match format {
        Format::OpenMetrics => {
            page.push_str(others);
            encode_eof(&mut page)?;
            page
        }
        Format::Prometheus => to_prometheus(&page) + others,
    })
}

/// Returns a page in the format of Prometheus: the description of a counter has `_total` in its
/// name too, and there are no units and no end mark.
pub(super) fn to_prometheus(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut help = None;
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            // The type on the next line decides the name.
            help = described.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                writeln!(text, "# HELP {name}{suffix} {help}").expect("invariant: a String takes everything");
            }
            writeln!(text, "# TYPE {name}{suffix} {kind}").expect("invariant: a String takes everything");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
