use super::*;

/// The characters of Unicode that change the direction of what follows (UAX #9, 2).
const BIDI: &str =
    "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";

#[test]
fn what_a_terminal_obeys_is_escaped_and_all_else_stays() {
    let rows = [
        ("plain text", "a \"quoted\" C:\\path, 1 > 0", "a \"quoted\" C:\\path, 1 > 0"),
        ("letters of other scripts", "müßig 名前 имя …–😀", "müßig 名前 имя …–😀"),
        ("a line end", "eth0\nERROR forged", "eth0\\nERROR forged"),
        (
            "other line ends",
            "a\r\u{b}\u{c}\u{85}\u{2028}\u{2029}",
            "a\\r\\u{b}\\u{c}\\u{85}\\u{2028}\\u{2029}",
        ),
        ("a sequence of a terminal", "\x1b[31mred", "\\u{1b}[31mred"),
        ("the same in eight bits", "\u{9b}31mred", "\\u{9b}31mred"),
        ("nothing, backspace, delete", "\0\u{8}\u{7f}", "\\0\\u{8}\\u{7f}"),
        ("invisible characters", "a\u{200b}\u{feff}\u{ad}\u{e0041}", "a\\u{200b}\\u{feff}\\u{ad}\\u{e0041}"),
        ("a mark that combines", "e\u{301}", "e\\u{301}"),
        ("an escaped text", "\\u{1b}[31m\\n", "\\u{1b}[31m\\n"),
    ];
    for (what, text, shown) in rows {
        assert_eq!(Legible(text).to_string(), shown, "{what}");
    }
    let shown = Legible(BIDI).to_string();
    assert!(shown.is_ascii() && shown.matches("\\u{").count() == BIDI.chars().count(), "{shown}");
    for character in ('\0'..=char::MAX).filter(|character| character.is_control()) {
        assert!(is_escaped(character), "{character:?}");
    }
}

#[test]
fn an_excerpt_is_short_and_legible_with_quotes_and_without() {
    let excerpt = Excerpt::from("a \"b\"\n\u{202e}");
    assert_eq!(format!("{excerpt} {excerpt:?}"), r#"a "b"\n\u{202e} "a \"b\"\n\u{202e}""#);
    let whole = "ä".repeat(MOST_SHOWN);
    assert_eq!(Excerpt::from(whole.as_str()).to_string(), whole);
    assert_eq!(Excerpt::from(format!("{whole}b").as_str()).to_string(), format!("{whole}…"));
}

#[test]
fn the_message_of_a_condition_is_one_line_of_a_limited_length() {
    assert_eq!(message("a\nb \x1b[31m"), r"a\nb \u{1b}[31m");
    assert_eq!(message(&"\n".repeat(MAX_MESSAGE)).chars().count(), MAX_MESSAGE);
}
