//! The list of commands in the help, by task.

use std::fmt::Write as _;

use clap::Command;

/// The commands by task, in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["agent", "kubernetes", "controller"]),
    ("Look", &["status", "watch", "doctor", "who-has", "explain", "pools"]),
    ("Act", &["move", "release", "wire"]),
    ("Install", &["crd", "completions", "version", "unload", "uninstall"]),
];

/// Replaces the list of commands in the help of `command`. Hidden commands are left out.
pub(super) fn grouped(command: Command) -> Command {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        let known = names.iter().filter_map(|name| command.find_subcommand(name));
        let rows: Vec<_> = known.filter(|it| !it.is_hide_set()).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(list, "{header}{title}:{header:#}").expect("invariant: a String takes everything");
        for row in rows {
            let about = row.get_about().map(ToString::to_string).unwrap_or_default();
            let name = row.get_name();
            writeln!(list, "  {literal}{name:<13}{literal:#}{about}")
                .expect("invariant: a String takes everything");
        }
        list.push('\n');
    }
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::{CalledAs, Cli};

    /// Returns the help of a command, as `--help` prints it on a wide terminal.
    fn help(called: CalledAs) -> String {
        called.command().render_long_help().to_string()
    }

    #[test]
    fn each_command_is_in_one_group_and_each_group_in_its_place() {
        let all: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let known: BTreeSet<_> =
            Cli::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert_eq!(all.len(), known.len(), "a command is in two groups, or in none");
        assert_eq!(all.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), known);

        let help = help(CalledAs::Vipward);
        let at = |part: &str| help.find(part).unwrap_or_else(|| panic!("{part} in: {help}"));
        let parts = [
            "answers ARP and neighbour discovery",
            "Usage: vipward <COMMAND>",
            "\nRun:\n  agent  ",
            "\nLook:\n  status  ",
            "\nAct:\n  move  ",
            "\nInstall:\n  crd  ",
            "\nOptions:\n  -h, --help",
            "Exit codes:",
        ];
        assert!(parts.map(at).is_sorted(), "{help}");
        let wide: Vec<_> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn the_plugin_lists_no_command_of_a_service_manager_and_no_empty_group() {
        let help = help(CalledAs::Plugin);
        assert!(
            help.contains("\nLook:\n  status  ") && help.contains("Usage: kubectl vip <COMMAND>"),
            "{help}"
        );
        for left_out in ["Run:", "\n  agent ", "\n  unload "] {
            assert!(!help.contains(left_out), "{left_out} in: {help}");
        }
    }

    /// clap wraps what it prints: a break in a paragraph would be a second one.
    #[test]
    fn no_help_has_a_break_in_a_sentence() {
        fn texts(command: &Command, all: &mut Vec<String>) {
            let own = [command.get_before_help(), command.get_after_help(), command.get_after_long_help()];
            all.extend(own.into_iter().flatten().map(ToString::to_string));
            command.get_subcommands().for_each(|it| texts(it, all));
        }
        let mut all = Vec::new();
        texts(&CalledAs::Plugin.command(), &mut all);
        assert!(all.len() > 6, "{all:#?}");
        for text in all {
            let goes_on = |line: &&str| line.starts_with(|first: char| first.is_lowercase());
            let broken: Vec<_> = text.lines().filter(goes_on).collect();
            assert!(broken.is_empty(), "{broken:?} in: {text}");
        }
    }
}
