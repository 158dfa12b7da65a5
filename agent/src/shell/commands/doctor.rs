//! `vipward doctor`: reads the facts that the core's checks need, and shows their results.
//!
//! Each fact is read on its own, so that a failure hides no other fact. The doctor changes nothing,
//! and needs no agent. It only waits for a heartbeat.

mod fence;
mod files;
mod processes;
mod report;
mod tc;

use std::{collections::BTreeMap, path::Path, time::Duration};

use aya::programs::{ProgramInfo, loaded_programs};
use vipward_core::{
    base::pattern::InterfacePattern,
    diagnosis::{
        doctor::{Agent, Bound, Facts, Heartbeat, Machine, Nic},
        pinned::{Fact, Plane, Unread},
    },
    host::net::NetView,
};

pub(crate) use self::files::conf;
pub use self::report::{Report, Summary};
use crate::shell::{
    kernel::{
        bpf::{self, Extent, Pins},
        ethtool, groups,
        netdev::has_native_xdp,
        netlink::{self, Lower, Netlink},
        preflight,
    },
    logging::causes::unread,
    pages,
};

/// Reads the facts about this host. While it waits for a heartbeat, it calls `watched` with the
/// time so far.
pub async fn read(dir: &Path, wanted: Vec<InterfacePattern>, watched: impl FnMut(Duration)) -> Facts {
    let network = observe().await;
    let agent = preflight::user_of(dir).map_err(|error| unread(&error));
    let (plane, heartbeat) = plane(&Pins::new(dir), watched).await;
    let lowers = netlink::lowers().await.unwrap_or_default();
    let mut nics = BTreeMap::new();
    let mut confs = BTreeMap::from([("all".to_owned(), conf("all"))]);
    if let Ok(view) = &network {
        for interface in view.interfaces.values() {
            let lower = lowers.iter().find(|lower| lower.index == interface.index);
            nics.insert(interface.index, nic(interface.index, &interface.name, lower).await);
            confs.insert(interface.name.clone(), conf(&interface.name));
        }
        name_xdp_programs(view, &mut nics);
    }
    Facts {
        machine: machine(agent.as_ref().ok().copied()),
        pin_dir: preflight::look_at(dir).map_err(|error| unread(&error)),
        wire: pages::wire(agent.as_ref().ok().copied()),
        plane,
        heartbeat,
        dir: dir.to_owned(),
        agent,
        wanted,
        network,
        bound: bound().await,
        memberships: groups::observe().await.map_err(|error| unread(&error)),
        nics,
        conf: confs,
        neighbours: files::neighbours(),
        processes: processes::of_this_network(),
        sees_all_processes: processes::are_all_seen(),
    }
}

/// Reads the pinned state, and watches its fence.
async fn plane(pins: &Pins, watched: impl FnMut(Duration)) -> (Fact<Option<Plane>>, Heartbeat) {
    let mut plane = bpf::plane(pins, Extent::OFFENDERS);
    let mut heartbeat = Heartbeat::Missed { watched: Duration::ZERO };
    if let Ok(Some(Plane { contents, .. })) = &mut plane
        && let Ok(read) = contents
    {
        match fence::watch(pins, read, watched).await {
            Ok(seen) => heartbeat = seen,
            Err(unread) => *contents = Err(unread),
        }
    }
    (plane, heartbeat)
}

async fn observe() -> Fact<NetView> {
    let netlink = Netlink::connect().map_err(|error| unread(&error))?;
    netlink.observe().await.map_err(|error| unread(&error))
}

async fn bound() -> Fact<Vec<Bound>> {
    let addresses = netlink::addresses().await.map_err(|error| unread(&error))?;
    let bound = |it: netlink::Address| Bound {
        ifindex: it.index,
        net: it.net,
        label: if it.is_ours() { netlink::LABEL.to_owned() } else { it.label },
    };
    Ok(addresses.into_iter().map(bound).collect())
}

fn machine(agent: Option<Agent>) -> Machine {
    let release = preflight::release().map_err(|error| unread(&error));
    let lacks = release.as_ref().ok().and_then(|release| preflight::lacks(release));
    let missing = |pid: Option<u32>| {
        let missing = preflight::missing_capabilities_of(pid).map_err(|error| unread(&error))?;
        Ok(missing.0.iter().map(ToString::to_string).collect())
    };
    let agent = match agent {
        Some(Agent::Runs(pid)) => pid,
        Some(Agent::None) | None => None,
    };
    Machine {
        lacks,
        btf: preflight::has_btf().map_err(|error| unread(&error)),
        missing_here: missing(None),
        missing_in_agent: agent.map(|pid| missing(Some(pid))),
        memlock_bytes: files::memlock_bytes(),
        memlock_counts: release.as_ref().is_ok_and(|release| preflight::counts_bpf_as_locked(release)),
        release,
        unprivileged_bpf_disabled: files::unprivileged_bpf_disabled(),
        clock_source: files::clock_source(),
        wire_thread: agent.map_or(Ok(None), processes::wire_thread),
    }
}

async fn nic(ifindex: u32, name: &str, lower: Option<&Lower>) -> Nic {
    Nic {
        driver: ethtool::driver(name),
        native: has_native_xdp(ifindex),
        vlan_offload: ethtool::takes_tags_off(name),
        gro: ethtool::gro(name),
        mtu_bytes: lower
            .and_then(|lower| lower.mtu_bytes)
            .ok_or_else(|| Unread { reason: format!("the kernel names no MTU of {name}"), denied: false }),
        conf_v6: files::conf_v6(name),
        mld_queries: files::mld_queries(name),
        lower: lower.and_then(|lower| lower.link),
        lower_elsewhere: lower.is_some_and(|lower| lower.elsewhere),
        tc: tc::programs(ifindex).await,
        xdp_names: BTreeMap::new(),
    }
}

fn name_xdp_programs(view: &NetView, nics: &mut BTreeMap<u32, Nic>) {
    let names = program_names();
    for interface in view.interfaces.values() {
        let Some(nic) = nics.get_mut(&interface.index) else { continue };
        let named = interface.xdp_programs.iter().filter_map(|id| Some((*id, names.get(id)?.clone())));
        nic.xdp_names = named.collect();
        if let Ok(programs) = &mut nic.tc {
            for program in programs.iter_mut().filter(|program| program.name.is_none()) {
                program.name = names.get(&program.id).cloned();
            }
        }
    }
}

/// Returns the names of the loaded programs by their ids, or none without `CAP_SYS_ADMIN`.
fn program_names() -> BTreeMap<u32, String> {
    let named = |program: ProgramInfo| Some((program.id(), program.name_as_str()?.to_owned()));
    loaded_programs().filter_map(Result::ok).filter_map(named).collect()
}
