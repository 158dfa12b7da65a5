//! docs/reference/commands.txt: what `--help` prints, of every command.

use clap::Command;

use super::assert_committed;
use crate::cli::CalledAs;

const WIDTH: usize = 100;
const PAGE: &str = "commands.txt";

/// Returns the help of a command under the line that prints it.
fn help(name: &str, command: &mut Command) -> String {
    let rule = "=".repeat(WIDTH);
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    format!("\n{rule}\n$ {name} --help\n\n{}\n", help.join("\n").trim_end())
}

/// Adds the help of a command, and then of its subcommands.
fn add(page: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    *page += &help(&name, command);
    for subcommand in command.get_subcommands_mut().filter(|it| it.get_name() != "help") {
        add(page, subcommand);
    }
}

/// Returns a command whose help depends neither on a terminal nor on the environment.
fn as_printed(called: CalledAs) -> Command {
    fn without_values(command: Command) -> Command {
        let names: Vec<_> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
        let command = command.mut_args(|arg| arg.hide_env_values(true));
        names.iter().fold(command, |command, name| command.mut_subcommand(name, without_values))
    }
    let mut command = without_values(called.command()).term_width(WIDTH);
    command.build();
    command
}

#[test]
fn the_help_of_every_command_is_in_the_reference() {
    let mut page = "What --help prints, of every command. Generated from the code:\n\
                    VIPWARD_WRITE_DOCS=1 cargo test -p vipward --lib documented\n"
        .to_owned();
    add(&mut page, &mut as_printed(CalledAs::Vipward));
    // The plugin's subcommands are those above.
    page += &help("kubectl vip", &mut as_printed(CalledAs::Plugin));
    assert_committed(PAGE, &page);
}
