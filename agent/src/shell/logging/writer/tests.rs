use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::{dispatcher::with_default, info};

use super::*;

/// A value with a line of its own, an order to the terminal in both forms, and text that is read from
/// right to left.
const FORGED: &str = "a\n2026-11-27T12:00:00Z ERROR forged\r\x1b[31m\u{9b}2J\u{202e}txt.\u{e0041}";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(in crate::shell) fn log_of(format: LogFormat, is_coloured: bool, write: impl FnOnce()) -> String {
    let log = Log::default();
    with_default(&dispatch(format, EnvFilter::new("info"), log.clone(), is_coloured), write);
    let bytes = log.0.lock().expect("no test panics with it").clone();
    String::from_utf8(bytes).expect("text")
}

/// Returns what is logged about a text, as its field is written in each way and in the message.
fn logged(format: LogFormat, is_coloured: bool, text: &str) -> String {
    log_of(
        format,
        is_coloured,
        || info!(shown = %text, quoted = text, debug = ?text, r#type = 1, "about {text}"),
    )
}

#[test]
fn a_text_line_is_one_line_that_no_terminal_obeys() {
    let line = logged(LogFormat::Text, false, FORGED);
    assert_eq!(line.lines().count(), 1, "{line:?}");
    assert!(!line.trim_end_matches('\n').contains(is_escaped), "{line:?}");
    let escaped = r"a\n2026-11-27T12:00:00Z ERROR forged\r\u{1b}[31m\u{9b}2J\u{202e}txt.\u{e0041}";
    for part in [
        format!("about {escaped} shown={escaped} quoted=\"{escaped}\" debug=\"{escaped}\""),
        " type=1\n".into(),
    ] {
        assert!(line.contains(&part), "{part:?} in {line:?}");
    }
}

#[test]
fn a_text_line_on_a_terminal_has_only_the_colours_of_its_time_and_level() {
    let line = logged(LogFormat::Text, true, FORGED);
    let before = line.split("about").next().unwrap_or_default();
    assert!(before.contains("\x1b[32m") && before.contains("INFO"), "{line:?}");
    assert_eq!(line.matches('\x1b').count(), before.matches('\x1b').count(), "{line:?}");
    assert_eq!(line.lines().count(), 1, "{line:?}");
}

#[test]
fn a_text_line_has_the_beginning_of_a_long_field() {
    let line = logged(LogFormat::Text, false, &"x".repeat(200_000));
    assert!(line.chars().count() < 5 * MOST, "{} characters", line.chars().count());
    assert!(line.contains("x…"), "{}", &line[..100]);
}

#[test]
fn a_json_line_says_the_same_to_programs_and_no_terminal_obeys_it() {
    let line = logged(LogFormat::Json, false, FORGED);
    assert!(line.ends_with("}\n") && !line.trim_end_matches('\n').contains(is_escaped), "{line:?}");
    let read: Value = serde_json::from_str(&line).expect("an object");
    assert_eq!(read["message"], format!("about {FORGED}"));
    assert_eq!((read["shown"].as_str(), read["quoted"].as_str()), (Some(FORGED), Some(FORGED)));
}

#[test]
fn a_level_alone_is_that_of_vipward_and_what_is_named_counts() {
    let quiet = ",aya=warn,h2=warn,hyper=warn,rustls=warn,rtnetlink=warn,tower=warn";
    for (wanted, expected) in [
        (None, format!("info{quiet}")),
        (Some(""), format!("info{quiet}")),
        (Some("debug"), format!("debug{quiet}")),
        (Some(" TRACE "), format!("TRACE{quiet}")),
        (Some("debug,aya=debug"), "debug,aya=debug".to_owned()),
        (Some("aya_obj"), "aya_obj".to_owned()),
    ] {
        assert_eq!(filter(wanted), expected, "{wanted:?}");
    }
}
