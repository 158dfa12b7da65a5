//! `vipward who-has`: finds the hosts of a segment that answer for an address, and reads from the pins
//! which host should.

mod table;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use thiserror::Error;
use vipward_common::{MacAddr, Offender, Role, VipKey};
use vipward_core::{
    base::time::Monotonic,
    diagnosis::{
        fact::{Fact, Unread},
        pinned::State,
        who_has::{Command, HostKnows, Query, Question, Report, SegmentError, choose_segment},
    },
    host::net::{Interface, NetView},
};

pub use self::table::render;
use super::doctor::conf;
use crate::shell::kernel::{
    bpf::{BpfError, Pins, Reader},
    clock,
    netlink::{Netlink, NetlinkError},
    packet::nonce,
    segment::{self, Receiving, Segment},
};

/// The address, and where to probe for it.
#[derive(Clone, Debug)]
pub struct Options {
    pub address: IpAddr,
    /// The interface to probe through; by default the one whose subnet contains the address.
    pub interface: Option<String>,
    pub count: u32,
    /// The time that each question waits for answers.
    pub timeout: Duration,
    /// The pin directory of an agent that may run here.
    pub pin_dir: PathBuf,
}

/// The reason why there is no report.
#[derive(Debug, Error)]
pub enum WhoHasError {
    #[error("cannot probe {address}")]
    NoSegment {
        address: IpAddr,
        #[source]
        source: SegmentError,
    },
    #[error("failed to probe {address}")]
    Segment {
        address: IpAddr,
        #[source]
        source: segment::SegmentError,
    },
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
    #[error("failed to read the pinned objects")]
    Bpf(#[from] BpfError),
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

/// Probes the address, and waits for all answers. Calls `progress` after every probe.
pub async fn probe(options: &Options, mut progress: impl FnMut(&Query)) -> Result<Report, WhoHasError> {
    let address = options.address;
    let view = Netlink::connect()?.observe().await?;
    let reader = Reader::find(&Pins::new(&options.pin_dir));
    let maps = reader.as_ref().ok().and_then(Option::as_ref);
    let state = |reader: &Reader| reader.state(0, view.clone());
    let before = maps.map(state).transpose()?;
    let known = before.as_ref().map(|state| homes(state, address)).unwrap_or_default();
    let interface = choose_segment(&view, address, options.interface.as_deref(), &known)
        .map_err(|source| WhoHasError::NoSegment { address, source })?;
    let is_vip =
        |address| before.as_ref().is_some_and(|state| state.contents.entries_of(address).next().is_some());
    let question = Question {
        address,
        own: interface.mac,
        source: interface.source_for(address, is_vip),
        nonce: nonce(),
        count: options.count,
        timeout: options.timeout,
    };
    let asking = listen(&question, interface, maps, &mut progress).await?;
    // The answers may have changed the pinned state, so it is read again.
    let pins = match &reader {
        Ok(Some(reader)) => Fact::Read(Some(state(reader)?)),
        Ok(None) => Fact::Read(None),
        Err(why) => Fact::Unread(why.clone()),
    };
    let host = HostKnows { own: view.macs(), bound: bound(&view, interface, address), pins };
    Ok(Report::new(&asking, interface, &host))
}

/// Sends all probes, and waits for the answers.
async fn listen(
    question: &Question,
    interface: &Interface,
    maps: Option<&Reader>,
    progress: &mut impl FnMut(&Query),
) -> Result<Query, WhoHasError> {
    let address = question.address;
    let failed = |source| WhoHasError::Segment { address, source };
    let dropped = || maps.map_or_else(|| Ok(BTreeMap::new()), |maps| dropped(maps, interface.index, address));
    let segment =
        Segment::open(interface.index, &interface.name, Receiving::About(address)).map_err(failed)?;
    let (mut asking, mut commands) = Query::start(*question, &dropped()?, now()?);
    loop {
        for Command::Ask in commands.drain(..) {
            segment.send(&question.frame()).map_err(failed)?;
        }
        let Some(deadline) = asking.next_deadline() else { return Ok(asking) };
        tokio::select! {
            biased;
            // The deadline comes first, or a flood of frames would starve it.
            () = tokio::time::sleep(deadline.saturating_since(now()?)) => {
                asking.on_dropped(&dropped()?);
                commands = asking.on_tick(now()?);
                progress(&asking);
            }
            frame = segment.receive() => asking.on_frame(&frame.map_err(failed)?, now()?),
        }
    }
}

fn now() -> nix::Result<Monotonic> {
    clock::monotonic_ns().map(Monotonic::from_nanos)
}

/// Returns the interfaces on whose segments the address is known. Interfaces on which this host
/// holds it or hands it over come first.
fn homes(state: &State, address: IpAddr) -> Vec<u32> {
    let mut homes = Vec::new();
    for entry in state.contents.entries_of(address) {
        match entry.role {
            Role::Held | Role::Handover => homes.insert(0, entry.key.ifindex),
            Role::Foreign if !entry.mac.is_zero() => homes.push(entry.key.ifindex),
            Role::Foreign => {}
        }
    }
    homes
}

fn dropped(maps: &Reader, ifindex: u32, address: IpAddr) -> Result<BTreeMap<MacAddr, Offender>, WhoHasError> {
    let here = maps.offenders()?.into_iter().filter(|(key, _)| key.vip == VipKey::new(ifindex, address));
    Ok(here.map(|(key, record)| (key.mac, record)).collect())
}

/// Returns the interface of this host that has the address, and true
/// if the kernel answers for it on `probed`.
fn bound(view: &NetView, probed: &Interface, address: IpAddr) -> Option<(String, Fact<bool>)> {
    let has = |interface: &&Interface| interface.addresses.iter().any(|net| net.addr() == address);
    // For an IPv6 address the kernel answers on the interface that has it.
    let ignores = if address.is_ipv6() { Fact::Read(1) } else { arp_ignore(&probed.name).into() };
    if has(&probed) {
        return Some((probed.name.clone(), ignores.map(|ignores| ignores < 8)));
    }
    let elsewhere = view.interfaces.values().find(has)?;
    // With 0 the kernel answers on every interface for every local address.
    Some((elsewhere.name.clone(), ignores.map(|ignores| ignores == 0)))
}

/// Returns the value in force: the larger of `all` and the interface's own.
fn arp_ignore(interface: &str) -> Result<u8, Unread> {
    Ok(conf("all")?.arp_ignore.max(conf(interface)?.arp_ignore))
}
