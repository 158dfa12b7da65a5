//! `vipward who-has`: asks a segment who answers for an address, and reads from the pins who should.

mod table;

use std::{
    collections::BTreeMap,
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use vipward_common::{MacAddr, Offender, Role, VipKey};

pub use self::table::render;
use super::{
    bpf::{BpfError, Maps, Pins},
    causes::chain,
    clock,
    doctor::conf,
    netlink::{Netlink, NetlinkError},
    segment::{self, Segment},
    status::Entries,
};
use crate::core::{
    net::{Interface, NetView},
    time::Monotonic,
    who_has::{
        AgentKnows, Asking, Command, EntrySeen, HostKnows, Question, Report, SegmentError, choose_segment,
    },
};

/// What is to be asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which address.
    pub address: Ipv4Addr,
    /// Through which interface; none means the one whose subnet contains it.
    pub interface: Option<String>,
    /// How often.
    pub count: u32,
    /// How long answers are waited for, each time.
    pub timeout: Duration,
    /// Where an agent may have pinned what it knows.
    pub pin_dir: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum WhoHasError {
    /// There is no segment to ask.
    #[error("cannot ask for {address}")]
    NoSegment {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: SegmentError,
    },
    /// The segment could not be asked.
    #[error("failed to ask for {address}")]
    Segment {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: segment::SegmentError,
    },
    /// The interfaces could not be read.
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
    /// What the XDP program dropped could not be read.
    #[error("failed to read the pinned objects")]
    Bpf(#[from] BpfError),
    /// The clock could not be read.
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

/// Asks, and waits for all answers. `progress` is told after every question.
pub async fn ask(options: &Options, mut progress: impl FnMut(&Asking)) -> Result<Report, WhoHasError> {
    let address = options.address;
    let view = Netlink::connect()?.observe().await?;
    let pins = Pinned::open(&options.pin_dir);
    let known = pins.maps().map_or_else(|| Ok(Vec::new()), |maps| homes(maps, &view, address))?;
    let interface = choose_segment(&view, address, options.interface.as_deref(), &known)
        .map_err(|source| WhoHasError::NoSegment { address, source })?;
    let question = Question { address, own: interface.mac, count: options.count, timeout: options.timeout };
    let asking = listen(&question, interface, pins.maps(), &mut progress).await?;
    // What the pins say is read last: it may have changed because of what was heard.
    let (agent, trouble) = match &pins {
        Pinned::None => (None, None),
        Pinned::Unreadable(why) => (None, Some(why.clone())),
        Pinned::Open(pins, maps) => (Some(agent_knows(pins, maps, &view, interface, address)?), None),
    };
    let own = view.interfaces.values().map(|interface| (interface.mac, interface.name.clone()));
    let knows = HostKnows {
        own: own.filter(|(mac, _)| mac.is_unicast()).collect(),
        bound: bound(&view, interface, address),
        agent,
        trouble,
    };
    Ok(Report::new(&asking, interface, &knows))
}

/// Asks until all questions are asked and waited for.
async fn listen(
    question: &Question,
    interface: &Interface,
    maps: Option<&Maps>,
    progress: &mut impl FnMut(&Asking),
) -> Result<Asking, WhoHasError> {
    let address = question.address;
    let failed = |source| WhoHasError::Segment { address, source };
    let dropped = || maps.map_or_else(|| Ok(BTreeMap::new()), |maps| dropped(maps, interface.index, address));
    let segment = Segment::open(interface.index, &interface.name, address).map_err(failed)?;
    let (mut asking, mut commands) = Asking::start(*question, &dropped()?, now()?);
    loop {
        for Command::Ask in commands.drain(..) {
            segment.send(&question.frame()).map_err(failed)?;
        }
        let Some(deadline) = asking.next_deadline() else { return Ok(asking) };
        tokio::select! {
            biased;
            // First, or a flood would keep it from ever coming.
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

/// The pins of an agent, which need not be there, nor be readable for everybody who may ask.
pub(super) enum Pinned {
    None,
    Unreadable(String),
    Open(Pins, Box<Maps>),
}

impl Pinned {
    pub(super) fn open(dir: &Path) -> Self {
        let pins = Pins::new(dir);
        match fs::exists(pins.map(vipward_common::maps::META)) {
            Ok(false) => return Self::None,
            // The directory is root's: what is in it cannot be looked at by others.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::None,
            Err(error) => return Self::Unreadable(format!("{}: {error}", dir.display())),
            Ok(true) => {}
        }
        match Maps::open(&pins) {
            Ok(maps) => Self::Open(pins, Box::new(maps)),
            Err(error) => Self::Unreadable(chain(&error)),
        }
    }

    fn maps(&self) -> Option<&Maps> {
        match self {
            Self::Open(_, maps) => Some(maps),
            Self::None | Self::Unreadable(_) => None,
        }
    }
}

/// Where the address's entry says more than that it is not here, the most telling first.
fn homes(maps: &Maps, view: &NetView, address: Ipv4Addr) -> Result<Vec<u32>, BpfError> {
    let mut homes = Vec::new();
    for ifindex in view.interfaces.keys() {
        let Some(entry) = maps.entry(&VipKey::untagged(*ifindex, address.octets()))? else { continue };
        match entry.role {
            Role::Held | Role::Handover => homes.insert(0, *ifindex),
            Role::Foreign if !MacAddr(entry.mac).is_zero() => homes.push(*ifindex),
            Role::Foreign => {}
        }
    }
    Ok(homes)
}

fn dropped(maps: &Maps, ifindex: u32, address: Ipv4Addr) -> Result<BTreeMap<MacAddr, Offender>, WhoHasError> {
    let here = maps
        .offenders()?
        .into_iter()
        .filter(|(key, _)| (key.ifindex, key.vlan, key.addr) == (ifindex, 0, address.octets()));
    Ok(here.map(|(key, record)| (MacAddr(key.mac), record)).collect())
}

fn agent_knows(
    pins: &Pins,
    maps: &Maps,
    view: &NetView,
    interface: &Interface,
    address: Ipv4Addr,
) -> Result<AgentKnows, WhoHasError> {
    let peers = maps.peers()?.into_iter().filter(|(ifindex, _)| *ifindex == interface.index);
    let peers = peers.map(|(_, mac)| mac).collect();
    let key = VipKey::untagged(interface.index, address.octets());
    let Some(entry) = maps.entry(&key)? else { return Ok(AgentKnows { entry: None, peers }) };
    let seen = Entries::new(pins, maps, view, clock::coarse_ns()?)?.status(&key, &entry)?;
    let mac = seen.mac.unwrap_or(MacAddr::ZERO);
    let entry = EntrySeen { role: seen.role, mac, silent_because: seen.silent_because };
    Ok(AgentKnows { entry: Some(entry), peers })
}

/// Where the address is on this host, and whether the kernel answers for it on `asked`.
fn bound(view: &NetView, asked: &Interface, address: Ipv4Addr) -> Option<(String, bool)> {
    let has = |interface: &&Interface| interface.addresses.iter().any(|net| net.addr() == address);
    if has(&asked) {
        return Some((asked.name.clone(), arp_ignore(&asked.name) < 8));
    }
    let elsewhere = view.interfaces.values().find(has)?;
    // 0 answers for every local address on every interface.
    Some((elsewhere.name.clone(), arp_ignore(&asked.name) == 0))
}

/// The value in force: the larger one of `all` and the interface's own.
fn arp_ignore(interface: &str) -> u8 {
    let read = |interface: &str| conf(interface).map_or(0, |conf| conf.arp_ignore);
    read("all").max(read(interface))
}
