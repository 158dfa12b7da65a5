//! Looks at source text for what no compiler objects to.

/// Words that mark work as unfinished. Taken apart here, or this file would hold them.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_CODE: &[&str] = &[concat!("unimpl", "emented!("), concat!("to", "do!(")];

/// Lines that say that something is unfinished.
pub(super) fn leftover_lines(text: &str) -> Vec<(usize, String)> {
    let is_word_part = |c: char| c.is_alphanumeric() || c == '_';
    numbered(text, |line| {
        line.split(|c| !is_word_part(c)).any(|word| UNFINISHED.contains(&word))
            || UNFINISHED_CODE.iter().any(|call| line.contains(call))
    })
}

/// Crates that do I/O, and modules of std that do.
const SHELL_ONLY: &[&str] = &[
    "aya",
    "aya_log",
    "caps",
    "libc",
    "nix",
    "rtnetlink",
    "tokio",
    "std::fs",
    "std::io",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::process",
    "std::thread",
    "std::env",
    "std::os",
    "crate::shell",
];

/// Whether a file belongs to the agent's core; its tests may do what tests do.
pub(super) fn is_core(file: &str) -> bool {
    let in_core = file == "agent/src/core.rs" || file.starts_with("agent/src/core/");
    in_core && !file.ends_with("/tests.rs") && !file.contains("/tests/")
}

/// Lines of a core module that reach for the outside world.
pub(super) fn impure_lines(_file: &str, text: &str) -> Vec<(usize, String)> {
    let names = |line: &str, path: &str| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + path.len()..];
            let starts = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
            starts
                && (after.starts_with("::")
                    || (path.contains("::") && !after.starts_with(char::is_alphanumeric)))
        })
    };
    numbered(text, |line| {
        let code = line.split("//").next().unwrap_or_default();
        SHELL_ONLY.iter().any(|path| names(code, path))
    })
}

fn numbered(text: &str, objectionable: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().filter(|(_, line)| objectionable(line));
    lines.map(|(index, line)| (index + 1, line.trim().to_owned())).collect()
}

/// The shell that runs a file, if it is a script.
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
