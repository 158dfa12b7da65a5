//! `vipward status`: what the kernel has, read back from the pins and over netlink.

mod entries;
mod table;

use std::{cmp::Reverse, collections::BTreeMap, io, net::Ipv4Addr, path::PathBuf, time::Duration};

use serde::{Serialize, Serializer};
use thiserror::Error;
use vipward_common::{Counters, Fence, FenceState, MacAddr, Offender, OffenderKey, Outcome, Policy, Role};

pub(super) use self::entries::Entries;
#[cfg(test)]
pub(super) use self::entries::FENCE_IS_OVER;
use super::{
    bpf::{BpfError, Maps, Mode, Pins},
    clock,
    netlink::{Netlink, NetlinkError},
};
use crate::core::vendor;

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
    pub mac: Option<MacAddr>,
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
    let entries = Entries::new(pins, &maps, &view, clock::coarse_ns()?)?;
    let now_ns = entries.now_ns;
    let counters = maps.counters()?;
    let name = |ifindex: u32| view.name_of(ifindex);
    let vips: Vec<VipStatus> =
        maps.entries()?.iter().map(|(key, entry)| entries.status(key, entry)).collect::<Result<_, _>>()?;
    Ok(Status {
        pin_dir: pins.dir().to_owned(),
        abi_version: maps.meta()?.abi_version,
        fence: fence_status(&entries.fence, entries.fence_state(), now_ns),
        entries: vips.len(),
        max_vips: maps.max_vips(),
        interfaces: entries.interfaces,
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

pub(super) fn fence_status(fence: &Fence, state: FenceState, now_ns: u64) -> FenceStatus {
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
