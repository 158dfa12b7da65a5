//! `vipward status`: what the kernel has, read back from the pins and over netlink.

use std::{cmp::Reverse, collections::BTreeMap, fmt, io, net::Ipv4Addr, path::PathBuf, time::Duration};

use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use serde::{Serialize, Serializer};
use thiserror::Error;
use vipward_common::{
    Counters, Fence, FenceState, MacAddr, Offender, OffenderKey, Outcome, Policy, Role, SeenEntry, VipEntry,
    VipKey,
};

use super::{
    bpf::{BpfError, LinkPin, Maps, Mode, Pins},
    clock,
    netlink::{Netlink, NetlinkError},
};
use crate::core::{net::NetView, vendor};

/// Offenders that the tables for people have.
const MOST_OFFENDERS: usize = 32;

/// Why there is no status.
#[derive(Debug, Error)]
pub enum StatusError {
    /// Nothing is pinned.
    #[error(
        "nothing is pinned under {}: no agent has run with this pin directory, or it was unloaded \
         (another directory: --pin-dir)", dir.display()
    )]
    NothingPinned {
        /// Where was looked.
        dir: PathBuf,
    },
    /// The directory may not be looked at.
    #[error("failed to look into {}; run as root, or with the capabilities of the agent", dir.display())]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pins could not be read.
    #[error("failed to read the pinned objects")]
    Bpf(#[from] BpfError),
    /// The interfaces could not be read.
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
    /// The clock could not be read.
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

/// Everything that `vipward status` says.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Where the pins are.
    pub pin_dir: PathBuf,
    /// Layout of the pinned maps.
    pub abi_version: u32,
    /// Until when this node may answer.
    pub fence: FenceStatus,
    /// Entries of `vips_v4`, and how many it has room for.
    pub entries: usize,
    /// Room of `vips_v4`.
    pub max_vips: u32,
    /// The interfaces that have a pinned link.
    pub interfaces: Vec<InterfaceStatus>,
    /// The entries.
    pub vips: Vec<VipStatus>,
    /// The MACs of the peers, by interface.
    pub peers: Vec<PeerStatus>,
    /// Who else has claimed the VIPs, those that were heard last first.
    pub offenders: Vec<OffenderStatus>,
    /// Frames by outcome.
    pub counters: BTreeMap<&'static str, u64>,
    /// Events that found the ring buffer full.
    pub events_lost: u64,
}

/// The fence, as of now.
#[derive(Debug, Serialize)]
pub struct FenceStatus {
    /// `valid`, `held over` or `over`.
    pub state: &'static str,
    /// `stop` or `hold`.
    pub policy: &'static str,
    /// Time until the deadline; 0 when it has passed.
    pub left_seconds: f64,
    /// Time until holding over ends; 0 when it has passed.
    pub hold_left_seconds: f64,
}

/// An interface that has a pinned link.
#[derive(Debug, Serialize)]
pub struct InterfaceStatus {
    /// Its name; none when it is gone.
    pub name: Option<String>,
    /// ifindex.
    pub ifindex: u32,
    /// Whether the kernel runs the link's program on it.
    pub attached: bool,
    /// How the program runs.
    pub mode: Mode,
    /// Id of the link.
    pub link_id: u32,
    /// Id of the program that the link runs.
    pub program_id: u32,
    /// Its own MAC, as the program knows it.
    pub mac: Option<String>,
    /// Whether it has carrier.
    pub carrier: bool,
}

/// An entry, as the program sees it now.
#[derive(Debug, Serialize)]
pub struct VipStatus {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The interface's name; its index when it is gone.
    pub interface: String,
    /// `held`, `foreign` or `handover`.
    #[serde(serialize_with = "role_name")]
    pub role: Role,
    /// The MAC that the VIP is at; none when unknown.
    #[serde(serialize_with = "as_text")]
    pub mac: Option<MacAddr>,
    /// Whether it was yielded to that MAC.
    pub yielded: bool,
    /// Whether requests for it are answered now.
    pub answering: bool,
    /// Why not, when this node has the VIP and does not answer.
    pub silent_because: Option<&'static str>,
    /// Requests answered; none when the VIP has no counters of its own.
    pub answered: Option<u64>,
    /// Claims dropped as conflicts.
    pub conflicts: Option<u64>,
    /// Requests dropped.
    pub suppressed: Option<u64>,
}

/// A peer.
#[derive(Debug, Serialize)]
pub struct PeerStatus {
    /// The interface that it is seen through.
    pub interface: String,
    /// Its MAC.
    pub mac: String,
}

/// A host that has claimed a VIP, or is about to use its address.
#[derive(Debug, Serialize)]
pub struct OffenderStatus {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The interface that it is seen through.
    pub interface: String,
    /// sha of its claims.
    pub mac: String,
    /// Whose that MAC is, by the IEEE's registry.
    pub vendor: String,
    /// Ethernet source of the last one.
    pub eth_source: String,
    /// `conflict`, `contested` (by a peer), `sighted` (nobody is known to hold it) or `probed`.
    pub kind: &'static str,
    /// How many there were.
    pub claims: u64,
    /// How long ago the last one was.
    pub last_seconds_ago: f64,
    /// What the map has of it.
    #[serde(skip)]
    pub record: (OffenderKey, Offender),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference to the field")]
fn role_name<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.name())
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference to the field"
)]
fn as_text<S: Serializer>(mac: &Option<MacAddr>, serializer: S) -> Result<S::Ok, S::Error> {
    mac.map(|mac| mac.to_string()).serialize(serializer)
}

fn offenders(
    maps: &Maps,
    name: impl Fn(u32) -> String,
    now_ns: u64,
) -> Result<Vec<OffenderStatus>, BpfError> {
    let mut found: Vec<(OffenderKey, Offender)> = maps.offenders()?.into_iter().collect();
    found.sort_by_key(|(key, offender)| (Reverse(offender.last_ns), *key));
    let status = |(key, offender): (OffenderKey, Offender)| OffenderStatus {
        address: key.addr.into(),
        interface: name(key.ifindex),
        mac: MacAddr(key.mac).to_string(),
        vendor: vendor::of(MacAddr(key.mac)).to_string(),
        eth_source: MacAddr(offender.source).to_string(),
        kind: offender.kind.name(),
        claims: offender.claims,
        last_seconds_ago: Duration::from_nanos(now_ns.saturating_sub(offender.last_ns)).as_secs_f64(),
        record: (key, offender),
    };
    Ok(found.into_iter().map(status).collect())
}

/// Reads the status from the kernel.
pub async fn read(pins: &Pins) -> Result<Status, StatusError> {
    match pins.map(vipward_common::maps::META).try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(StatusError::NothingPinned { dir: pins.dir().to_owned() }),
        Err(source) => return Err(StatusError::Unreadable { dir: pins.dir().to_owned(), source }),
    }
    let maps = Maps::open(pins)?;
    let view = Netlink::connect()?.observe().await?;
    let now_ns = clock::coarse_ns()?;
    let fence = maps.fence()?;
    let state = fence.state(now_ns);
    let entries = maps.entries()?;
    let counters = maps.counters()?;
    let name = |ifindex: u32| view.name_of(ifindex);
    let own = maps.links()?;
    let interfaces: Vec<InterfaceStatus> =
        pins.links()?.iter().map(|link| interface_status(link, &view, &own)).collect::<Result<_, _>>()?;
    let silent = |ifindex: u32, mac: MacAddr| why_silent(&interfaces, &view, ifindex, mac);
    let vips = entries
        .iter()
        .map(|(key, entry)| vip_status(&maps, key, entry, state, now_ns, (&name, &silent)))
        .collect::<Result<_, _>>()?;
    Ok(Status {
        pin_dir: pins.dir().to_owned(),
        abi_version: maps.meta()?.abi_version,
        fence: fence_status(&fence, state, now_ns),
        entries: entries.len(),
        max_vips: maps.max_vips(),
        interfaces,
        vips,
        offenders: offenders(&maps, name, now_ns)?,
        peers: maps
            .peers()?
            .into_iter()
            .map(|(ifindex, mac)| PeerStatus { interface: name(ifindex), mac: mac.to_string() })
            .collect(),
        counters: Outcome::ALL
            .iter()
            .map(|outcome| (outcome.name(), Counters::get(&counters, *outcome)))
            .collect(),
        events_lost: counters.events_lost,
    })
}

fn fence_status(fence: &Fence, state: FenceState, now_ns: u64) -> FenceStatus {
    let left = |until_ns: u64| Duration::from_nanos(until_ns.saturating_sub(now_ns)).as_secs_f64();
    FenceStatus {
        state: match state {
            FenceState::Valid => "valid",
            FenceState::HeldOver => "held over",
            FenceState::Over => "over",
        },
        policy: match fence.policy {
            Policy::Stop => "stop",
            Policy::Hold => "hold",
        },
        left_seconds: left(fence.deadline_ns),
        hold_left_seconds: left(fence.hold_until_ns),
    }
}

pub(super) fn interface_status(
    link: &LinkPin,
    view: &NetView,
    own: &BTreeMap<u32, MacAddr>,
) -> Result<InterfaceStatus, BpfError> {
    let (link_id, program_id) = link.ids()?;
    let interface = view.interfaces.get(&link.ifindex);
    Ok(InterfaceStatus {
        name: interface.map(|interface| interface.name.clone()),
        ifindex: link.ifindex,
        attached: interface.is_some_and(|interface| interface.xdp_programs.contains(&program_id)),
        mode: link.mode,
        link_id,
        program_id,
        mac: own.get(&link.ifindex).map(ToString::to_string),
        carrier: interface.is_some_and(|interface| interface.carrier),
    })
}

/// What keeps an interface from answering with `mac`, whatever the maps say.
pub(super) fn why_silent(
    interfaces: &[InterfaceStatus],
    view: &NetView,
    ifindex: u32,
    mac: MacAddr,
) -> Option<&'static str> {
    let attached = interfaces.iter().any(|interface| interface.ifindex == ifindex && interface.attached);
    match view.interfaces.get(&ifindex) {
        None => Some("the interface is gone"),
        Some(_) if !attached => Some("the program is not attached"),
        Some(interface) if !interface.up => Some("the interface is down"),
        Some(interface) if !interface.carrier => Some("no carrier"),
        Some(interface) if interface.mac != mac => Some("the interface has another MAC"),
        Some(_) => None,
    }
}

/// What an interface is called, and why it would not answer with a MAC.
pub(super) type Lookups<'a> = (&'a dyn Fn(u32) -> String, &'a dyn Fn(u32, MacAddr) -> Option<&'static str>);

pub(super) fn vip_status(
    maps: &Maps,
    key: &VipKey,
    entry: &VipEntry,
    fence: FenceState,
    now_ns: u64,
    (name, silent): Lookups<'_>,
) -> Result<VipStatus, BpfError> {
    let SeenEntry { role, mac, yielded } = entry.as_seen(maps.state(entry.slot)?.yielded, now_ns);
    let count = maps.vip_count(entry.slot)?;
    let silent_because = match role {
        Role::Foreign => None,
        Role::Held | Role::Handover if fence == FenceState::Over => Some("the fence is over"),
        Role::Held => silent(key.ifindex, mac),
        // It is the successor's MAC.
        Role::Handover => silent(key.ifindex, mac).filter(|why| *why != "the interface has another MAC"),
    };
    Ok(VipStatus {
        address: key.addr.into(),
        interface: name(key.ifindex),
        role,
        mac: (!mac.is_zero()).then_some(mac),
        yielded,
        answering: role != Role::Foreign && silent_because.is_none(),
        silent_because,
        answered: count.map(|count| count.answered),
        conflicts: count.map(|count| count.conflicts),
        suppressed: count.map(|count| count.suppressed),
    })
}

/// The tables for people.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pins {}  ABI {}  entries {} of {}",
            self.pin_dir.display(),
            self.abi_version,
            self.entries,
            self.max_vips
        )?;
        let fence = &self.fence;
        writeln!(
            f,
            "fence {}, policy {}: {:.1} s left, holding over {:.0} s",
            fence.state, fence.policy, fence.left_seconds, fence.hold_left_seconds
        )?;
        writeln!(f, "\n{}\n\n{}\n\n{}", self.interface_table(), self.vip_table(), self.counter_table())?;
        if !self.peers.is_empty() {
            let mut peers = table(&["PEER", "INTERFACE"]);
            for row in &self.peers {
                peers.add_row([&row.mac, &row.interface]);
            }
            writeln!(f, "\n{peers}")?;
        }
        if !self.offenders.is_empty() {
            writeln!(f, "\n{}", self.offender_table())?;
        }
        if self.offenders.len() > MOST_OFFENDERS {
            writeln!(f, "and {} more; see -o json", self.offenders.len() - MOST_OFFENDERS)?;
        }
        if self.events_lost > 0 {
            writeln!(f, "\n{} events were lost: the ring buffer was full", self.events_lost)?;
        }
        Ok(())
    }
}

impl Status {
    fn interface_table(&self) -> Table {
        let mut interfaces = table(&["INTERFACE", "ATTACHED", "MODE", "PROGRAM", "LINK", "MAC", "CARRIER"]);
        for row in &self.interfaces {
            interfaces.add_row([
                row.name.clone().unwrap_or_else(|| format!("#{} (gone)", row.ifindex)),
                yes(row.attached),
                row.mode.to_string(),
                row.program_id.to_string(),
                row.link_id.to_string(),
                or_dash(row.mac.as_ref()),
                yes(row.carrier),
            ]);
        }
        interfaces
    }

    fn vip_table(&self) -> Table {
        let mut vips =
            table(&["VIP", "INTERFACE", "ROLE", "MAC", "ANSWERING", "ANSWERED", "CONFLICTS", "SUPPRESSED"]);
        for row in &self.vips {
            let role = row.role.name();
            vips.add_row([
                row.address.to_string(),
                row.interface.clone(),
                if row.yielded { format!("{role} (yielded)") } else { role.to_owned() },
                or_dash(row.mac.as_ref()),
                row.silent_because.map_or_else(|| yes(row.answering), |why| format!("no: {why}")),
                or_dash(row.answered.as_ref()),
                or_dash(row.conflicts.as_ref()),
                or_dash(row.suppressed.as_ref()),
            ]);
        }
        vips
    }

    fn offender_table(&self) -> Table {
        let mut offenders = table(&["CLAIMED BY", "VENDOR", "VIP", "INTERFACE", "KIND", "CLAIMS", "LAST"]);
        for row in self.offenders.iter().take(MOST_OFFENDERS) {
            offenders.add_row([
                row.mac.clone(),
                row.vendor.clone(),
                row.address.to_string(),
                row.interface.clone(),
                row.kind.to_owned(),
                row.claims.to_string(),
                format!("{:.0} s ago", row.last_seconds_ago),
            ]);
        }
        offenders
    }

    fn counter_table(&self) -> Table {
        let mut counters = table(&["OUTCOME", "FRAMES"]);
        for outcome in Outcome::ALL {
            let frames = self.counters.get(outcome.name()).copied().unwrap_or_default();
            counters.add_row([outcome.name().to_owned(), frames.to_string()]);
        }
        counters
    }
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

pub(super) fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

pub(super) fn or_dash(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}
