//! The same binary as a plugin of kubectl: called `kubectl-vip`, it is `kubectl vip`; called
//! `kubectl_complete-vip`, it completes what is typed after that.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{Command, CommandFactory};

use super::{command::Cli, groups::grouped};

/// The text after `kubectl vip --help`.
const HELP: &str = "\
This is vipward under the name of a kubectl plugin. `status`, `explain`, `move`, `pools`, `release` and `uninstall` \
query the API server of the context that --context names. `who-has` probes the segments of this machine, and so does \
`explain` at its end. `watch` and `doctor` inspect this machine, which is to be a node. kubectl's --kubeconfig, \
--context, --user, --server, --token, --as and --as-group may stand before the command or after it; -n is the \
namespace of Vipward.";
/// kubectl's options about the way to the API server, each with a value.
const OF_KUBECTL: [&str; 9] =
    ["--kubeconfig", "--context", "--user", "--server", "--token", "--as", "--as-group", "--namespace", "-n"];
/// The subcommands that only a service manager, a DaemonSet or an installation calls.
const NOT_FOR_A_DESK: [&str; 5] = ["agent", "kubernetes", "controller", "unload", "completions"];
/// The end of an answer to kubectl's question for completions:
/// complete no file names (cobra's `NoFileComp`).
const NO_FILES: &str = ":4";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalledAs {
    /// `vipward`, or anything else.
    Vipward,
    /// `kubectl-vip`
    Plugin,
    /// `kubectl_complete-vip`
    Completion,
}

impl CalledAs {
    /// Returns the name that `path`, the first argument, calls the binary by.
    pub fn by(path: &OsStr) -> Self {
        match Path::new(path).file_name().and_then(OsStr::to_str) {
            Some("kubectl-vip") => Self::Plugin,
            Some("kubectl_complete-vip") => Self::Completion,
            Some(_) | None => Self::Vipward,
        }
    }

    /// Returns the command line as it is taught under that name.
    pub fn command(self) -> Command {
        let command = Cli::command();
        let command = match self {
            Self::Vipward => command,
            Self::Plugin | Self::Completion => {
                let command = command.name("kubectl-vip").bin_name("kubectl vip").before_help(HELP);
                NOT_FOR_A_DESK
                    .into_iter()
                    .fold(command, |command, name| command.mut_subcommand(name, |it| it.hide(true)))
            }
        };
        grouped(command)
    }
}

/// Returns the arguments with kubectl's options, which may come first, behind the command.
pub fn in_order(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut options = Vec::new();
    while let Some(option) = arguments.next_if(|argument| is_of_kubectl(argument)) {
        let has_value = option.to_str().is_some_and(|option| option.contains('='));
        options.push(option);
        if !has_value {
            options.extend(arguments.next());
        }
    }
    let command = arguments.next();
    command.into_iter().chain(options).chain(arguments).collect()
}

fn is_of_kubectl(argument: &OsStr) -> bool {
    let name = argument.to_str().map(|argument| argument.split('=').next().unwrap_or_default());
    name.is_some_and(|name| OF_KUBECTL.contains(&name))
}

/// Returns what the last of `words`, which are typed after `kubectl vip`, may become, one on each line,
/// as kubectl reads them.
pub fn complete(words: &[String]) -> String {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut command = CalledAs::Plugin.command();
    command.build();
    for word in before {
        if let Some(next) = command.find_subcommand(word) {
            command = next.clone();
        }
    }
    let subcommands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let subcommands =
        subcommands.map(|it| (it.get_name().to_owned(), it.get_about().map(ToString::to_string)));
    // Before the command, kubectl's options are those of each command that has them.
    let plugin = CalledAs::Plugin.command();
    let of_kubectl = plugin.find_subcommand("status").filter(|_| command.has_subcommands());
    let of_kubectl = of_kubectl
        .into_iter()
        .flat_map(Command::get_arguments)
        .filter(|it| it.get_long().is_some_and(|name| OF_KUBECTL.contains(&&*format!("--{name}"))));
    let options = command.get_arguments().chain(of_kubectl).filter_map(|it| {
        let help = it.get_help().map(ToString::to_string);
        Some((format!("--{}", it.get_long()?), help))
    });
    let mut lines: Vec<String> = subcommands
        .chain(options.filter(|_| last.starts_with('-')))
        .filter(|(name, _)| name.starts_with(last))
        .map(|(name, about)| match about {
            Some(about) => format!("{name}\t{}", about.lines().next().unwrap_or_default()),
            None => name,
        })
        .collect();
    lines.push(NO_FILES.to_owned());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_and_not_the_directory() {
        for (path, expected) in [
            ("vipward", CalledAs::Vipward),
            ("/usr/local/bin/kubectl-vip", CalledAs::Plugin),
            ("kubectl-vip", CalledAs::Plugin),
            ("/usr/local/bin/kubectl_complete-vip", CalledAs::Completion),
            ("/opt/kubectl-vip/vipward", CalledAs::Vipward),
            ("kubectl-vips", CalledAs::Vipward),
            ("", CalledAs::Vipward),
        ] {
            assert_eq!(CalledAs::by(OsStr::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_offered_at_a_desk_is_on_the_page() {
        const PAGE: &str = include_str!("../../../docs/commands.md");

        let plugin = CalledAs::Plugin.command();
        let offered = plugin.get_subcommands().filter(|it| !it.is_hide_set());
        let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `kubectl vip")).collect();
        let missing: Vec<_> = offered
            .map(|it| format!("`kubectl vip {}`", it.get_name()))
            .filter(|name| !rows.iter().any(|row| row.contains(name)))
            .collect();
        assert!(missing.is_empty(), "{missing:?} in {rows:#?}");
        // Each goes to the cluster that is named, in the same words.
        for name in ["status", "explain", "move", "pools", "release"] {
            let command = plugin.find_subcommand(name).expect("it is offered");
            let has = |option: &str| command.get_arguments().any(|it| it.get_long() == Some(option));
            assert!(has("kubeconfig") && has("context"), "{name}");
            assert!(command.get_arguments().any(|it| it.get_short() == Some('n')), "{name} has no -n");
        }
    }

    #[test]
    fn options_of_kubectl_may_come_before_the_command() {
        for (given, expected) in [
            ("", ""),
            ("status", "status"),
            ("--context here status -o json", "status --context here -o json"),
            ("--context=here -n net --as a status", "status --context=here -n net --as a"),
            ("status --context here", "status --context here"),
            ("--help", "--help"),
            ("--context", "--context"),
        ] {
            let given = given.split_whitespace().map(OsString::from);
            assert_eq!(in_order(given).join(OsStr::new(" ")), expected, "{expected}");
        }
    }

    #[test]
    fn what_is_typed_is_completed_with_commands_and_with_options_after_a_dash() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let answer = complete(&words);
            let names = answer.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&["stat"]), ["status", ":4"]);
        assert_eq!(names(&["age"]), [":4"], "agents are not started from a desk");
        let all = names(&[""]);
        assert!(
            ["status", "move", "who-has", "explain", "watch", "doctor"]
                .iter()
                .all(|name| all.iter().any(|it| it == name)),
            "{all:?}"
        );
        assert!(!all.iter().any(|name| name.starts_with('-')), "{all:?}");
        assert_eq!(names(&["doctor", "--str"]), ["--strict", ":4"]);
        assert_eq!(names(&["doctor", "x"]), [":4"]);
        assert_eq!(names(&["--cont"]), ["--context", ":4"]);
        assert_eq!(names(&["--context", "here", "stat"]), ["status", ":4"]);
        assert_eq!(names(&["move", "--as"]), ["--as", "--as-group", ":4"]);
        assert_eq!(names(&[]), all);
    }
}
