//! `vipward doctor`: reads the facts that the core's checks need, and shows their results.
//!
//! Each fact is read on its own, so that a failure hides no other fact. The doctor changes nothing,
//! and needs no agent. It only waits for a heartbeat.

mod files;
mod lease_deadline;
mod processes;
mod report;
mod tc;

use std::{collections::BTreeMap, path::Path, time::Duration};

use aya::programs::{ProgramInfo, loaded_programs};
use vipward_common::{Offender, OffenderKey};
use vipward_core::{
    base::pattern::InterfacePattern,
    diagnosis::{
        doctor::{Agent, Bound, Facts, Heartbeat, Kernel, Machine, Nic},
        fact::Fact,
        pinned::Plane,
    },
    host::net::NetView,
};

pub(crate) use self::files::conf;
pub use self::report::{Report, Summary, described};
use crate::shell::{
    endpoints,
    kernel::{
        bpf::{self, Pins, Reader},
        ethtool, groups,
        netdev::has_native_xdp,
        netlink::{self, Lower, Netlink, NetlinkError},
        other_pins, preflight,
    },
    logging::errors::fact,
};

/// Reads the facts about this host. While it waits for a heartbeat, it calls `watched` with the
/// time so far.
pub async fn read(dir: &Path, wanted: Vec<InterfacePattern>, watched: impl FnMut(Duration)) -> Facts {
    let network = fact(observe().await);
    let agent = fact(preflight::user_of(dir));
    let pins = Pins::new(dir);
    let (plane, heartbeat) = plane(&pins, watched).await;
    let lowers = fact(netlink::lowers().await);
    let mut nics = BTreeMap::new();
    if let Fact::Read(view) = &network {
        for interface in view.interfaces.values() {
            let lower = lowers.as_ref().and_then(|lowers| {
                let lower = lowers.iter().find(|it| it.index == interface.index).copied();
                Fact::found(lower, || format!("the kernel does not list {}", interface.name))
            });
            nics.insert(interface.index, nic(interface.index, &interface.name, lower).await);
        }
        name_xdp_programs(view, &mut nics);
    }
    Facts {
        machine: machine(agent.clone()),
        pin_dir: fact(preflight::look_at(dir)),
        wire: agent.clone().and_then(|it| endpoints::wire(it, dir)),
        file: agent.clone().and_then(|it| endpoints::file(it, dir)),
        others: network.as_ref().and_then(|view| fact(other_pins::running(dir, view))),
        plane,
        heartbeat,
        offenders: offenders(&pins),
        dir: dir.to_owned(),
        agent,
        wanted,
        network,
        bound: fact(netlink::addresses().await).map(|all| all.into_iter().map(bound).collect()),
        memberships: fact(groups::observe().await),
        nics,
        conf_all: conf("all").into(),
        neighbours: files::neighbours().into(),
        processes: processes::of_this_network().into(),
        sees_all_processes: processes::are_all_seen().into(),
    }
}

/// Reads the pinned state, and watches its lease deadline.
async fn plane(pins: &Pins, watched: impl FnMut(Duration)) -> (Fact<Option<Plane>>, Fact<Heartbeat>) {
    let mut plane = bpf::plane(pins).into();
    let heartbeat = match &mut plane {
        Fact::Read(Some(Plane { contents: Fact::Read(contents), .. })) => {
            lease_deadline::watch(pins, contents, watched).await.into()
        }
        Fact::Read(_) | Fact::Unread(_) => Fact::skipped("there was no lease deadline to watch"),
    };
    (plane, heartbeat)
}

fn offenders(pins: &Pins) -> Fact<BTreeMap<OffenderKey, Offender>> {
    match Reader::find(pins) {
        Ok(Some(reader)) => fact(reader.offenders()),
        Ok(None) => Fact::skipped("nothing is pinned"),
        Err(why) => Fact::Unread(why),
    }
}

async fn observe() -> Result<NetView, NetlinkError> {
    Netlink::connect()?.observe().await
}

fn bound(it: netlink::Address) -> Bound {
    let label = if it.is_ours() { netlink::LABEL.to_owned() } else { it.label };
    Bound { ifindex: it.index, net: it.net, label }
}

fn machine(agent: Fact<Agent>) -> Machine {
    let kernel = |release: String| Kernel {
        lacks: preflight::lacks(&release),
        counts_bpf_as_locked: preflight::counts_bpf_as_locked(&release),
        release,
    };
    let missing = |pid: Option<u32>| {
        let missing = fact(preflight::missing_capabilities_of(pid));
        missing.map(|missing| missing.0.iter().map(ToString::to_string).collect())
    };
    let pid = agent.map(|agent| match agent {
        Agent::Runs(pid) => pid,
        Agent::None => None,
    });
    Machine {
        kernel: fact(preflight::release()).map(kernel),
        btf: fact(preflight::has_btf()),
        missing: pid.and_then(missing),
        memlock_bytes: files::memlock_bytes().into(),
        unprivileged_bpf_disabled: files::unprivileged_bpf_disabled().into(),
        clock_source: files::clock_source().into(),
    }
}

async fn nic(ifindex: u32, name: &str, lower: Fact<Lower>) -> Nic {
    let mtu = |lower: &Lower| Fact::found(lower.mtu_bytes, || format!("the kernel names no MTU of {name}"));
    Nic {
        driver: ethtool::driver(name).into(),
        native: has_native_xdp(ifindex).into(),
        vlan_offload: ethtool::takes_tags_off(name).into(),
        gro: ethtool::gro(name).into(),
        mtu_bytes: lower.as_ref().and_then(mtu),
        wireless: files::wireless(name).into(),
        conf: conf(name).into(),
        conf_v6: files::conf_v6(name).into(),
        mld_queries: files::mld_queries(name).into(),
        peer: lower.map(|lower| lower.link.filter(|_| !lower.elsewhere)),
        tc: tc::programs(ifindex).await.into(),
        xdp_names: BTreeMap::new(),
    }
}

fn name_xdp_programs(view: &NetView, nics: &mut BTreeMap<u32, Nic>) {
    let names = program_names();
    for interface in view.interfaces.values() {
        let Some(nic) = nics.get_mut(&interface.index) else { continue };
        let named = interface.xdp_programs.iter().filter_map(|id| Some((*id, names.get(id)?.clone())));
        nic.xdp_names = named.collect();
        if let Fact::Read(programs) = &mut nic.tc {
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
