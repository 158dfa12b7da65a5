//! `vipward watch`: lines in a pipe, and a screen that leaves the terminal as it was.

mod grid;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, HOLDS_ONE, NODE, Node, PATIENCE, ROGUE, VIP, ip, net},
    frames::{Arp, Mac},
    kit::{Process, SpawnOptions, wait_for, wait_until},
    lan::{Host, Nic, Wire},
};

/// The false MAC in forged frames.
const FORGED: Mac = Mac([2, 0, 0, 0, 0, 0xf0]);
/// The codes that open and close a terminal's alternate screen.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// Starts `vipward watch --plain` on a node, with a reading every 100 ms.
fn watch(node: &Node, args: &[&str]) -> Result<Process> {
    let mut command = node.agent.vipward("watch")?;
    command.args(["--plain", "--interval", "100ms"]).args(args);
    node.host.spawn(command)
}

fn wait_for_line(watch: &Process, parts: &[&str]) -> Result<String> {
    let what = format!("a line with {parts:?}");
    let is_it = |line: &&str| parts.iter().all(|part| line.contains(part));
    let look = || Ok(watch.stdout().lines().find(is_it).map(ToOwned::to_owned));
    wait_for(PATIENCE, &what, look).with_context(|| watch.transcript())
}

/// Makes another host on the node's switch, which claims the VIP.
fn rogue(node: &Node) -> Result<(Host, Wire)> {
    let rogue = node.lan()?.host("rogue", Nic::new(net(3)).mac(ROGUE))?;
    let wire = Wire::open(&rogue, "eth0")?;
    Ok((rogue, wire))
}

#[test]
fn each_event_of_a_nodes_life_is_a_line() -> Result<()> {
    let mut node = Node::start(
        "watch",
        &format!("fence: {{duration: 1s, heartbeat: 200ms, policy: hold}}\n{HOLDS_ONE}"),
    )?;
    node.wait_until_answered(VIP, NODE)?;
    let mut watch = watch(&node, &[])?;
    wait_for_line(
        &watch,
        &["start ", "lease deadline valid, interfaces 1, VIPs 1 held, 0 handover, 0 silent, 0 foreign"],
    )?;

    let (_rogue, wire) = rogue(&node)?;
    for _ in 0..5 {
        wire.send(&Arp::gratuitous_request(ROGUE, VIP, Mac::BROADCAST).to_bytes())?;
    }
    let line = wait_for_line(&watch, &["conflict  192.0.2.10 eth0 claimed by 02:00:00:00:00:03"])?;
    assert!(!line.contains("Ethernet source"), "it is the same: {line}");
    let forged = Arp { eth_src: FORGED, ..Arp::gratuitous_request(Mac::local(9), VIP, Mac::BROADCAST) };
    wire.send(&forged.to_bytes())?;
    let local = Mac::local(9).to_string();
    wait_for_line(
        &watch,
        &[
            "claimed by",
            &local,
            "(locally administered), Ethernet source 02:00:00:00:00:f0: 1 claims, 1 in all",
        ],
    )?;

    let probe = node.probe(VIP)?;
    probe.wait_for_requests(300, PATIENCE)?;
    let answered = |line: &str| -> Option<f64> {
        line.split("answered ").nth(1)?.split("/s").next()?.parse().ok().filter(|rate| *rate > 10.0)
    };
    wait_until(PATIENCE, "a rate of answers", || {
        Ok(watch.stdout().lines().filter(|line| line.contains("rates ")).any(|line| answered(line).is_some()))
    })
    .with_context(|| watch.transcript())?;
    probe.stop()?;

    node.write_config(
        "fence: {duration: 1s, heartbeat: 200ms, policy: hold}\n\
         vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n",
    )?;
    wait_for_line(&watch, &["role      192.0.2.11 eth0 ", "-> held at 02:00:00:00:00:02"])?;

    node.host.set_carrier("eth0", false)?;
    wait_for_line(&watch, &["link      eth0 has no carrier"])?;
    wait_for_line(&watch, &["silent    192.0.2.10 eth0 is not answered: no carrier"])?;
    node.host.set_carrier("eth0", true)?;
    wait_for_line(&watch, &["link      eth0 has carrier"])?;
    wait_for_line(&watch, &["answering 192.0.2.10 eth0 is answered"])?;

    node.agent.kill9()?;
    wait_for_line(&watch, &["deadline  valid -> grace period"])?;
    node.restart_agent()?;
    wait_for_line(&watch, &["deadline  grace period -> valid"])?;

    // All pins go, and come back.
    assert_eq!(node.agent.terminate()?.code(), Some(0));
    node.agent.unload()?;
    wait_for_line(&watch, &["unread    nothing is pinned under"])?;
    node.restart_agent()?;
    wait_until(PATIENCE, "a second start", || Ok(watch.stdout().matches(" start ").count() == 2))
        .with_context(|| watch.transcript())?;

    watch.signal(Signal::SIGTERM)?;
    assert_eq!(watch.wait(PATIENCE)?.code(), Some(0));
    assert_eq!(watch.stderr(), "");
    Ok(())
}

#[test]
fn it_ends_when_no_process_reads_any_more() -> Result<()> {
    let node = Node::start("watch-head", HOLDS_ONE)?;
    let command = node.agent.vipward("watch")?;
    let mut shell = node.host.command("sh");
    shell.args(["-c", "\"$@\" --plain --interval 100ms | head -n 1; echo over", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let mut shell = node.host.spawn(shell)?;
    assert_eq!(shell.wait(PATIENCE)?.code(), Some(0));
    let printed = shell.stdout();
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains(" start ") && lines[1] == "over", "{printed}");
    assert_eq!(shell.stderr(), "");
    Ok(())
}

#[test]
fn what_cannot_be_watched_is_reported() -> Result<()> {
    let directory = TempDir::new()?;
    let pin_dir = directory.path().join("pins");
    for (args, code, said) in [
        (&["--plain"][..], 1, "nothing is pinned under"),
        (&[], 1, "standard output is no terminal: use --plain"),
        (&["-o", "json"], 2, "--plain"),
        (&["--plain", "--interval", "1ms"], 2, "at least 100ms"),
    ] {
        let mut command = Command::new(Agent::default_binary());
        command.arg("watch").args(args).arg("--pin-dir").arg(&pin_dir);
        let output = command.stdin(Stdio::null()).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    Ok(())
}

/// The screen, on a terminal of script(1).
struct Screen {
    process: Process,
    directory: TempDir,
    columns: usize,
}

impl Screen {
    fn start(node: &Node) -> Result<Self> {
        Self::start_on(node, 120, "watch", "--interval 100ms")
    }

    /// Starts a subcommand on a terminal with so many columns.
    fn start_on(node: &Node, columns: usize, subcommand: &str, further: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let watch = node.agent.vipward(subcommand)?;
        let arguments: Vec<_> = watch.get_args().map(|argument| argument.to_string_lossy()).collect();
        let shell = format!(
            "stty rows 30 cols {columns}; echo $$ > {}; exec {} {} {further}",
            Self::pid_file(&directory).display(),
            watch.get_program().to_string_lossy(),
            arguments.join(" ")
        );
        let keys = directory.path().join("keys");
        nix::unistd::mkfifo(&keys, nix::sys::stat::Mode::S_IRWXU)?;
        // The file is open for reading and writing, so that neither side waits
        // for the other, and no missing key ends it.
        let mut script = node.host.command("sh");
        script.args([
            "-c",
            "exec script --quiet --return --flush --command \"$0\" /dev/null <>\"$1\"",
            &shell,
        ]);
        script.arg(&keys).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let process = Process::spawn(script, &SpawnOptions::default())?;
        Ok(Self { process, directory, columns })
    }

    fn pid_file(directory: &TempDir) -> std::path::PathBuf {
        directory.path().join("pid")
    }

    fn press(&self, keys: &str) -> Result<()> {
        let keys_to: &Path = &self.directory.path().join("keys");
        fs::OpenOptions::new().write(true).open(keys_to)?.write_all(keys.as_bytes())?;
        Ok(())
    }

    fn wait_until_drawn(&self, text: &str) -> Result<()> {
        wait_until(PATIENCE, &format!("{text:?} on the screen"), || {
            let written = self.process.stdout();
            ensure!(!written.contains("error:"), "it failed: {written}");
            Ok(grid::shown(&written, self.columns).contains(text))
        })
        .with_context(|| grid::shown(&self.process.stdout(), self.columns))
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(fs::read_to_string(Self::pid_file(&self.directory))?.trim().parse()?))
    }

    /// Fails unless it ends well, and restores the terminal.
    fn assert_left(&mut self) -> Result<()> {
        assert_eq!(self.process.wait(PATIENCE)?.code(), Some(0), "{}", self.process.transcript());
        let screen = self.process.stdout();
        let (entered, left) = (screen.rfind(ENTER), screen.rfind(LEAVE));
        assert!(entered.is_some() && entered < left, "{screen:?}");
        Ok(())
    }
}

#[test]
fn the_screen_shows_the_vip_takes_a_filter_and_is_left_by_q() -> Result<()> {
    let node = Node::start("screen", "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n")?;
    node.wait_until_answered(ip(11), NODE)?;
    let mut screen = Screen::start(&node)?;
    for text in ["VIPs 2 held", "192.0.2.10", "eth0", "1-2 of 2"] {
        screen.wait_until_drawn(text)?;
    }
    screen.press("/.11")?;
    screen.wait_until_drawn("filter: .11_")?;
    screen.press("\r")?;
    screen.wait_until_drawn("(Esc: all 2)")?;
    screen.press("q")?;
    screen.assert_left()
}

#[test]
fn a_signal_and_ctrl_c_leave_the_terminal_as_it_was() -> Result<()> {
    let node = Node::start("screen-signal", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let mut screen = Screen::start(&node)?;
    screen.wait_until_drawn("192.0.2.10")?;
    kill(screen.pid()?, Signal::SIGTERM)?;
    screen.assert_left()?;

    let mut screen = Screen::start(&node)?;
    screen.wait_until_drawn("192.0.2.10")?;
    screen.press("\x03")?;
    screen.assert_left()
}

#[test]
fn at_eighty_columns_each_address_and_mac_is_whole() -> Result<()> {
    const COLUMNS: usize = 80;
    let vip = "2001:db8::1111:2222:3333:4444";
    let yaml = format!(
        "interfaces: [eth0]\nvips: [{{address: '{vip}', mac: '02:00:00:00:00:09', interface: eth0}}, \
         {{address: {VIP}}}]\n"
    );
    let node = Node::start("narrow", &yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let (_rogue, wire) = rogue(&node)?;
    wire.send(&Arp::gratuitous_request(ROGUE, VIP, Mac::BROADCAST).to_bytes())?;
    let macs = [NODE.to_string(), ROGUE.to_string(), "02:00:00:00:00:09".to_owned()];
    let whole = [vip.to_owned(), VIP.to_string()].into_iter().chain(macs);
    let whole: Vec<String> = whole.collect();

    let mut screen = Screen::start_on(&node, COLUMNS, "watch", "--interval 100ms")?;
    for word in whole.iter().map(String::as_str).chain(["ANSWERING", "conflict"]) {
        screen.wait_until_drawn(word)?;
    }
    screen.press("q")?;
    screen.assert_left()?;

    for (subcommand, further, expected) in
        [("status", "", &whole[..]), ("doctor", "--all", &[VIP.to_string(), ROGUE.to_string()])]
    {
        let mut screen = Screen::start_on(&node, COLUMNS, subcommand, further)?;
        screen.process.wait(PATIENCE)?;
        let text = screen.process.stdout();
        let plain: String = text
            .split('\x1b')
            .enumerate()
            .map(|(at, part)| if at == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) })
            .collect();
        for line in plain.lines() {
            ensure!(line.trim_end().chars().count() <= COLUMNS, "{subcommand}: {line:?} in:\n{plain}");
        }
        for word in expected {
            let has_it = plain.split([' ', '\n', '\r', ';', ',', '(']).any(|part| part == word);
            ensure!(has_it, "{subcommand}: {word} in:\n{plain}");
        }
        ensure!(text.contains("\x1b["), "{subcommand} has no colours on a terminal");
    }
    Ok(())
}
