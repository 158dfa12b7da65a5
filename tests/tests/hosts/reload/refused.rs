//! Files that an agent refuses while it runs, and what shows that it does.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, HOLDS_ONE, LogLine, NODE, Node, PATIENCE, VIP},
    lan::http::{self, PAGES},
};

use super::{is_held, untouched, wait_for_refusal, wait_until_held};
use crate::doctor::{GREEN, YELLOW, report::doctor};

const HOLDS_TWO: &str = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n";
/// Time in which a file that is good again is applied. A new VIP is probed for 0.7 s.
const SOON: Duration = Duration::from_secs(3);
/// Time that is longer than the lease deadline.
const LONG: Duration = Duration::from_secs(10);

pub(super) fn page(node: &Node, path: &str) -> Result<String> {
    http::get(&node.host, PAGES, path)?.good()
}

/// Asserts that all places show a refusal with this reason, or with none that the file is in force.
fn assert_shown(node: &Node, why: Option<&str>) -> Result<()> {
    let metrics = page(node, "/metrics")?;
    let successful = format!("vipward_config_last_reload_successful {}.0\n", u8::from(why.is_none()));
    assert!(metrics.contains(&successful), "{metrics}");
    assert!(metrics.contains("\nvipward_config_last_reload_success_timestamp_seconds 1"), "{metrics}");
    let ready = page(node, "/readyz")?;
    let report = doctor(node, &[])?;
    if let Some(why) = why {
        assert!(ready.contains("[+]config ok, but the file on disk was refused "), "{ready}");
        assert!(ready.contains(why) && ready.ends_with("readyz check passed\n"), "{ready}");
        let found = ["the file on disk was refused", why, "the agent runs with the one that it read"];
        report.assert("config", None, YELLOW, &found, &["--check"]);
    } else {
        assert!(ready.contains("[+]config ok\n"), "{ready}");
        report.assert("config", None, GREEN, &["is in force"], &[]);
    }
    Ok(())
}

/// Watches the lease deadline for a time in which it would pass without a heartbeat.
fn assert_heartbeat(node: &Node) -> Result<()> {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        let status = node.agent.status()?;
        assert_eq!(status["lease_deadline"]["state"], "valid", "{status:#}");
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Puts back a file that has one more VIP, and waits until it is held.
fn mend(node: &mut Node, seen: usize) -> Result<()> {
    let mended = Instant::now();
    node.write_config(HOLDS_TWO)?;
    wait_until_held(node, 11, true)?;
    assert!(mended.elapsed() < SOON, "{:?}", mended.elapsed());
    let is_over = |line: &LogLine| line.message() == "the file is no longer refused";
    node.agent.wait_for_log_after(seen, PATIENCE, "that the file is good again", is_over).map(drop)
}

fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[test]
fn a_file_of_another_kind_is_refused_at_once_and_shown_until_it_is_mended() -> Result<()> {
    type Row = (&'static str, fn(&Path) -> Result<()>);
    let rows: [Row; 4] = [
        ("it is a FIFO", |path| Ok(mkfifo(path, Mode::S_IRUSR)?)),
        ("it is a directory", |path| Ok(fs::create_dir(path)?)),
        ("it is a device", |path| Ok(symlink("/dev/zero", path)?)),
        ("it is larger than 16 MiB", |path| Ok(File::create(path)?.set_len((16 << 20) + 1)?)),
    ];
    let mut node = Node::start("kinds", HOLDS_ONE)?;
    assert_shown(&node, None)?;
    untouched(&mut node, |node| {
        for (why, make) in rows {
            let path = node.agent.config_path();
            let seen = node.agent.logs()?.len();
            remove(&path)?;
            make(&path)?;
            wait_for_refusal(node, seen, &[why, &path.display().to_string()])?;
            assert_shown(node, Some(why))?;
            remove(&path)?;
            mend(node, seen)?;
            assert_shown(node, None)?;
            node.write_config(HOLDS_ONE)?;
            wait_until_held(node, 11, false)?;
        }
        Ok(())
    })
}

#[test]
fn a_wrong_file_is_shown_until_it_is_mended() -> Result<()> {
    let mut node = Node::start("shown", HOLDS_ONE)?;
    let seen = node.agent.logs()?.len();
    node.write_config("vips: [{address: 192.0.2.11}]\nfences: 3s\n")?;
    wait_for_refusal(&mut node, seen, &["`fences`"])?;
    assert_shown(&node, Some("vipward.yaml:3:1: unknown key `fences`"))?;
    assert!(is_held(&node, 10)?);
    mend(&mut node, seen)?;
    assert_shown(&node, None)
}

/// A file system whose daemon never answers. Dropping it ends those that wait.
struct Hung {
    directory: TempDir,
    device: Option<File>,
}

impl Hung {
    fn mount() -> Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.context("this test needs FUSE (/dev/fuse)")?;
        let directory = TempDir::with_prefix("vipward-hung-")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        mount(Some("hung"), directory.path(), Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
        Ok(Self { directory, device: Some(device) })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        drop(self.device.take());
        if let Err(error) = umount2(self.directory.path(), MntFlags::MNT_DETACH) {
            self.directory.disable_cleanup(true);
            eprintln!("{error}; {} is left", self.directory.path().display());
        }
    }
}

/// Makes a link anew, not by a rename.
fn lead(link: &Path, target: &Path) -> Result<()> {
    if link.is_symlink() {
        fs::remove_file(link)?;
    }
    Ok(symlink(target, link)?)
}

fn threads_of(agent: &Agent) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/task", agent.pid()?))?.count())
}

#[test]
fn a_file_system_that_does_not_answer_stops_neither_the_heartbeat_nor_a_good_file_nor_the_end() -> Result<()>
{
    let hung = Hung::mount()?;
    let mut node = Node::start("hung", HOLDS_ONE)?;
    let path = node.agent.config_path();
    let why = "it could not be read within 2 s";
    let hang = |node: &mut Node| -> Result<usize> {
        let seen = node.agent.logs()?.len();
        let link = path.with_extension("link");
        symlink(hung.directory.path().join("vipward.yaml"), &link)?;
        fs::rename(&link, &path)?;
        wait_for_refusal(node, seen, &[why])?;
        Ok(seen)
    };
    untouched(&mut node, |node| {
        let seen = hang(node)?;
        assert_shown(node, Some(why))?;
        let threads = threads_of(&node.agent)?;
        assert_heartbeat(node)?;
        let later = threads_of(&node.agent)?;
        // Those of the pages come and go.
        ensure!(later <= threads, "threads pile up: {threads}, then {later}");
        mend(node, seen)?;
        assert_shown(node, None)?;

        // A link to a directory leads there, and then back.
        let (links, good) = (TempDir::new()?, TempDir::new()?);
        let (directory, file) = (links.path().join("etc"), good.path().join("vipward.yaml"));
        let text = fs::read_to_string(&path)?;
        fs::write(&file, &text)?;
        lead(&directory, good.path())?;
        let link = path.with_extension("link");
        symlink(directory.join("vipward.yaml"), &link)?;
        fs::rename(&link, &path)?;
        fs::write(&file, text.replace("}]", "}, {address: 192.0.2.12}]"))?;
        wait_until_held(node, 12, true)?;
        let seen = node.agent.logs()?.len();
        lead(&directory, hung.directory.path())?;
        wait_for_refusal(node, seen, &[why])?;
        fs::write(&file, text.replace("}]", "}, {address: 192.0.2.12}, {address: 192.0.2.13}]"))?;
        lead(&directory, good.path())?;
        wait_until_held(node, 13, true)?;
        hang(node).map(drop)
    })?;
    let status = node.agent.terminate()?;
    assert!(status.success(), "{status}");
    node.wait_until_answered(VIP, NODE)?;

    // At the start, nothing waits for it either.
    let began = Instant::now();
    node.agent.restart()?;
    assert_eq!(node.agent.wait(PATIENCE)?.code(), Some(3), "{}", node.agent.transcript());
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert!(node.agent.transcript().contains(why), "{}", node.agent.transcript());
    Ok(())
}
