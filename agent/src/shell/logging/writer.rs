//! The log on stderr: its filter, its two formats, and the thread that writes it.
//!
//! Fields have texts of users, of nodes and of the API server. Messages shorten and escape them
//! ([`vipward_core::base::legible`]). This is the last place that does: a line of the log is one line, and
//! has no character that a terminal obeys.

use std::{
    env,
    fmt::{self, Write as _},
    io::{self, IsTerminal as _, Write},
};

use tracing::{Dispatch, Level, Metadata, field::Field};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, filter_fn},
    fmt::format::{Writer, debug_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};
use vipward_core::base::legible::{Excerpt, is_escaped};

use crate::cli::LogFormat;

#[cfg(test)]
pub(super) mod tests;

/// Libraries that log more than an operator needs. A name is that of all crates that begin with it.
const LIBRARIES: [&str; 6] = ["aya", "h2", "hyper", "rustls", "rtnetlink", "tower"];
/// Largest number of characters of a field in a text log.
const MOST: usize = 4_096;

/// Starts a thread that writes the log lines. It drops lines if their reader is slow, so that the
/// heartbeat never waits. When the guard is dropped, it writes the rest.
pub fn start(format: LogFormat) -> WorkerGuard {
    const LINES: usize = 8_192;

    let filter = EnvFilter::new(filter(env::var(EnvFilter::DEFAULT_ENV).ok().as_deref()));
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES).finish(io::stderr());
    dispatch(format, filter, writer, io::stderr().is_terminal()).init();
    guard
}

/// Returns the filter for a value of `RUST_LOG`. A level alone is that of Vipward: a library says more only
/// if it is named, since the loader of programs has a thousand lines for each start.
fn filter(wanted: Option<&str>) -> String {
    match wanted.map(str::trim).filter(|wanted| !wanted.is_empty()) {
        Some(wanted) if wanted.contains(['=', ',', '[']) || wanted.parse::<LevelFilter>().is_err() => {
            wanted.to_owned()
        }
        level => {
            let level = level.unwrap_or("info");
            LIBRARIES.iter().fold(level.to_owned(), |filter, library| format!("{filter},{library}=warn"))
        }
    }
}

fn dispatch<W>(format: LogFormat, filter: EnvFilter, writer: W, is_coloured: bool) -> Dispatch
where
    W: Write + Clone + Send + Sync + 'static,
{
    let notified = filter_fn(|metadata| !is_redundant(metadata));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(is_coloured);
    match format {
        LogFormat::Text => {
            let writer = move || writer.clone();
            log.fmt_fields(debug_fn(write_field)).with_writer(writer).finish().with(notified).into()
        }
        LogFormat::Json => {
            let writer = move || JsonLines(writer.clone());
            log.json().flatten_event(true).with_writer(writer).finish().with(notified).into()
        }
    }
}

/// Returns true if a log line of the client library repeats the agent's own.
///
/// The library warns of every watch that breaks, and of an unverified certificate at every
/// connection. [`Server::find`] does so once.
fn is_redundant(metadata: &Metadata<'_>) -> bool {
    match metadata.target() {
        "kube_client::client" => *metadata.level() == Level::WARN,
        "kube_client::client::tls::rustls_tls" => true,
        _ => false,
    }
}

/// Writes a field of a text line. The message is the first field, if there is one.
fn write_field(line: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = Excerpt::of(&format!("{value:?}"), MOST);
    match field.name() {
        "message" => write!(line, "{text}"),
        // The metadata of a line of the crate `log`.
        name if name.starts_with("log.") => Ok(()),
        name => write!(line, " {}={text}", name.trim_start_matches("r#")),
    }
}

/// A writer of lines of JSON, each with one call. JSON escapes the control characters of ASCII; this
/// escapes the others that a terminal obeys, in the way of JSON.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut escaped = String::with_capacity(line.len());
        for character in String::from_utf8_lossy(line).chars() {
            if character != '\n' && is_escaped(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            } else {
                escaped.push(character);
            }
        }
        self.0.write_all(escaped.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
