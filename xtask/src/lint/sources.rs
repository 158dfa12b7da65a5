//! Finds faults in source text that no compiler reports.

/// Words that mark work as unfinished, split so that this file does not contain them.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_CODE: &[&str] = &[concat!("unimpl", "emented!("), concat!("to", "do!(")];

/// The macros that write the log.
const LOGS: &[&str] = &["trace!(", "debug!(", "info!(", "warn!(", "error!("];

/// Returns the lines that mark work as unfinished, with their numbers.
pub(super) fn leftover_lines(text: &str) -> Vec<(usize, String)> {
    let is_word_part = |c: char| c.is_alphanumeric() || c == '_';
    numbered(text, |line| {
        line.split(|c| !is_word_part(c)).any(|word| UNFINISHED.contains(&word))
            || UNFINISHED_CODE.iter().any(|call| line.contains(call))
    })
}

/// Returns the lines that put Rust's `Debug` into the log, with their numbers.
pub(super) fn debug_lines(text: &str) -> Vec<(usize, String)> {
    let mut open = 0_usize;
    numbered(text, |line| {
        let begins = LOGS.iter().filter_map(|call| line.find(call)).min();
        let code = match (open, begins) {
            (0, None) => return false,
            (0, Some(at)) => &line[at..],
            _ => line,
        };
        let count = |of: char| code.chars().filter(|c| *c == of).count();
        open = (open + count('(')).saturating_sub(count(')'));
        let mut fields = code.match_indices('?').map(|(at, _)| code[..at].trim_end());
        code.contains(":?}") || fields.any(|before| before.is_empty() || before.ends_with(['(', ',', '=']))
    })
}

fn numbered(text: &str, mut objectionable: impl FnMut(&str) -> bool) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().filter(|(_, line)| objectionable(line));
    lines.map(|(index, line)| (index + 1, line.trim().to_owned())).collect()
}

/// Returns the shell that runs a file, if it is a script.
pub(super) fn shell_of(file: &str, text: &str) -> Option<&'static str> {
    let first = text.lines().next()?.strip_prefix("#!");
    let interpreter = first
        .and_then(|line| line.split(['/', ' ']).rfind(|word| !word.is_empty() && !word.starts_with('-')));
    match interpreter {
        Some("bash") => Some("bash"),
        Some("sh" | "dash") => Some("sh"),
        Some(_) => None,
        None => {
            std::path::Path::new(file).extension().is_some_and(|extension| extension == "sh").then_some("sh")
        }
    }
}

#[cfg(test)]
mod tests;
