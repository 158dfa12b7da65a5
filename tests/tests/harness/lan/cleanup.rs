//! Cleaning up: a test leaves nothing behind, even after a panic.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Bpffs, ip, net},
    kit::{Process, SpawnOptions, wait_until},
    lan::{Host, Lan, Link, NetNs, Nic, Responder, remove_named},
    measure::{ArpProbe, ProbeMode},
};

use super::PATIENCE;

/// The traces of a test, to look for afterwards.
struct Traces {
    namespaces: Vec<u64>,
    child: u32,
    bpffs: PathBuf,
    names: Vec<String>,
    interfaces_meanwhile: Vec<Link>,
}

/// Makes one of each object on a LAN, passes their traces to `notify`, and panics.
fn use_everything_and_panic(surroundings: &NetNs, notify: impl FnOnce(Traces)) -> Result<()> {
    let lan = Lan::new("panic")?;
    let a = lan.host("a", Nic::new(net(1)))?;
    let b = lan.host("b", Nic::new(net(2)))?;
    let (c, d) = Lan::pair(("c", Nic::new(net(3))), ("d", Nic::new(net(4))))?;
    let managed = Lan::managed("panic-managed")?;
    let managed_host = managed.host("e", Nic::new(net(5)))?;
    let names = lan.keep_named()?;
    let mut sleep = a.command("sleep");
    sleep.arg("1000");
    let child = a.spawn(sleep)?;
    let _responder = Responder::start(&b, "eth0", ip(10), b.mac("eth0")?)?;
    let probe =
        ArpProbe::start(&a, "eth0", ip(10), std::time::Duration::from_millis(1), ProbeMode::Broadcast)?;
    probe.wait_for_answers(10, PATIENCE)?;
    let bpffs = Bpffs::mount()?;
    fs::create_dir(bpffs.pin_dir("a"))?;

    let hosts = [&a, &b, &c, &d, &managed_host].map(Host::namespace);
    let namespaces = hosts.into_iter().chain([lan.switch(), managed.switch()]).map(NetNs::inode);
    notify(Traces {
        namespaces: namespaces.collect::<Result<_>>()?,
        child: child.pid(),
        bpffs: bpffs.path().to_owned(),
        names: names.names().to_vec(),
        interfaces_meanwhile: surroundings.links()?,
    });
    panic!("this panic is part of the test");
}

#[test]
fn a_test_that_panics_leaves_nothing() -> Result<()> {
    // A namespace surrounds the test, so that an object that
    // appears beside the LAN appears here alone.
    let surroundings = NetNs::new()?;
    let before = surroundings.links()?;
    let (sender, receiver) = channel();
    let notify = |traces| sender.send(traces).expect("it is received below");
    let ended = surroundings.run(|| {
        catch_unwind(AssertUnwindSafe(|| use_everything_and_panic(&surroundings, notify)))
            .map_err(|_| "panicked")
    });
    if let Ok(early) = ended {
        return early.context("it failed before its panic");
    }
    let traces = receiver.recv().context("it panicked too early")?;

    assert_eq!(traces.interfaces_meanwhile, before, "a LAN is invisible while it is there");
    assert_eq!(surroundings.links()?, before);
    assert!(!Path::new("/proc").join(traces.child.to_string()).exists(), "the child is gone and reaped");
    assert!(!traces.bpffs.exists());
    assert!(!mounts()?.contains(&traces.bpffs.display().to_string()));
    assert_eq!(traces.names.len(), 3);
    for name in &traces.names {
        assert!(!Path::new("/run/netns").join(name).exists(), "{name}");
        assert!(!mounts()?.contains(name), "{name}");
    }
    assert_eq!(traces.namespaces.len(), 7);
    for namespace in traces.namespaces {
        // A child of another test may have inherited a descriptor. It
        // keeps that until it starts its program.
        wait_until(PATIENCE, "a namespace to be gone", || Ok(holders_of(namespace)?.is_empty()))?;
    }
    Ok(())
}

#[test]
fn what_was_left_can_be_removed_with_what_runs_in_it() -> Result<()> {
    let lan = Lan::new("left")?;
    let host = lan.host("host", Nic::new(net(1)))?;
    let mut sleep = host.command("sleep");
    sleep.arg("1000");
    let options = SpawnOptions { can_be_left: true, ..SpawnOptions::default() };
    let mut child = Process::spawn(sleep, &options)?;
    let mut names = lan.keep_named()?.leave();
    assert!(names.iter().all(|name| Path::new("/run/netns").join(name).exists()), "{names:?}");

    let mut removed = remove_named("left")?;
    names.sort();
    removed.sort();
    assert_eq!(removed, names);
    assert!(names.iter().all(|name| !Path::new("/run/netns").join(name).exists()), "{names:?}");
    assert_eq!(child.wait(PATIENCE)?.signal(), Some(9));
    Ok(())
}

fn mounts() -> Result<String> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?)
}

/// Returns the threads in a network namespace, and the descriptors of this process that keep it.
fn holders_of(namespace: u64) -> Result<Vec<PathBuf>> {
    let mut candidates: Vec<PathBuf> = entries("/proc/self/fd")?;
    for process in entries("/proc")? {
        // A process that has ended meanwhile holds no namespace.
        let threads = entries(process.join("task")).unwrap_or_default();
        candidates.extend(threads.into_iter().map(|thread| thread.join("ns/net")));
    }
    let name = format!("net:[{namespace}]");
    let holds = |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target == Path::new(&name));
    Ok(candidates.into_iter().filter(holds).collect())
}

fn entries(path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    Ok(fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}
