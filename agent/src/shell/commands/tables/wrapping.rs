//! Text that is broken into lines between words. A word that is longer than a line is broken behind a
//! separator, if it has one. An address or a MAC is never broken.

use std::net::IpAddr;

use unicode_width::UnicodeWidthStr;

const SEPARATORS: [char; 6] = ['/', ',', '-', '=', '_', '@'];
const AROUND: [char; 9] = ['(', ')', '[', ']', ',', ';', '.', '/', '-'];

pub(crate) fn width_of(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Returns the lines of a text. A line is wider than `width` only if an address is.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let parts = if width_of(word) <= width { vec![word] } else { parts(word, width) };
        for (at, part) in parts.into_iter().enumerate() {
            let gap = usize::from(at == 0 && used > 0);
            let wide = width_of(part);
            if used > 0 && used + gap + wide > width {
                lines.push(String::new());
                used = 0;
            }
            let line = lines.last_mut().expect("invariant: there is a first line");
            if used > 0 && gap > 0 {
                line.push(' ');
                used += gap;
            }
            line.push_str(part);
            used += wide;
        }
    }
    lines
}

/// Returns the width of the widest address or MAC in a text.
pub(super) fn widest_address(text: &str) -> usize {
    let parts = text.split_whitespace().flat_map(separated);
    parts.filter(|part| is_address(part)).map(width_of).max().unwrap_or_default()
}

fn separated(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive(SEPARATORS)
}

fn is_address(part: &str) -> bool {
    let part = part.trim_matches(AROUND);
    part.parse::<IpAddr>().is_ok() || is_mac(part)
}

fn is_mac(part: &str) -> bool {
    let is_byte = |byte: &str| byte.len() == 2 && byte.bytes().all(|letter| letter.is_ascii_hexdigit());
    part.split(':').count() == 6 && part.split(':').all(is_byte)
}

/// Returns the parts of a word that may stand on lines of their own.
fn parts(word: &str, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    for mut part in separated(word) {
        while width_of(part) > width && !is_address(part) {
            let (line, rest) = part.split_at(cut(part, width));
            parts.push(line);
            part = rest;
        }
        parts.push(part);
    }
    parts
}

/// Returns the number of bytes of the letters that fit into `width`, at least one letter.
fn cut(text: &str, width: usize) -> usize {
    let mut ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let first = ends.next().unwrap_or(text.len());
    let fits = ends.take_while(|end| text.get(..*end).is_some_and(|start| width_of(start) <= width));
    fits.last().unwrap_or(first)
}
