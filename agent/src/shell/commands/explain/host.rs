//! Reads this host's facts about an address: the agent's file, and the pinned state.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_core::{
    config::Config,
    diagnosis::{
        explain::{Listed, ListedVip, Look},
        pinned::State,
    },
    host::{
        net::NetView,
        placement::{self, Wanted},
    },
};

use super::options::Options;
use crate::shell::{
    agent::read_config,
    kernel::{
        bpf::{BpfError, Extent, Pins, Reader},
        netdev::has_native_xdp,
    },
    logging::causes::chain,
    pages::wire_report,
};

/// Returns what the agent's file says, and the interface of the address.
pub(super) fn config(options: &Options, address: IpAddr, view: &NetView) -> (Look<Listed>, Option<String>) {
    let Some(path) = &options.config else {
        return (Look::Not("no file was given (--config)".to_owned()), None);
    };
    let mut config = match read_config(path) {
        Ok(config) => config,
        Err(error) => return (Look::Failed(chain(&error)), None),
    };
    let file = path.display().to_string();
    // The VIP is placed alone, so that every problem concerns it.
    config.vips.retain(|vip| vip.address == address);
    let Some(vip) = config.vips.first() else {
        return (Look::Seen(Listed { file, attach: config.attach, vip: None }), None);
    };
    let (interface, problems) = place(&config, view);
    let bind = vip.bind.as_ref().map(|bind| {
        let on = view.by_name(bind.as_str());
        let there = on.is_some_and(|on| on.addresses.iter().any(|net| net.addr() == address));
        (bind.as_str().to_owned(), there)
    });
    let listed = ListedVip { guarded: vip.mac, interface: interface.clone(), problems, bind };
    (Look::Seen(Listed { file, attach: config.attach, vip: Some(listed) }), interface)
}

fn place(config: &Config, view: &NetView) -> (Option<String>, Vec<String>) {
    let placed = BTreeMap::new();
    let placement = placement::place(
        &config.selection(),
        config.vips.iter().map(Wanted::from),
        view,
        &placed,
        &|_| false,
        u32::MAX,
    );
    let home = placement.desired.entries.iter().find(|(_, entry)| !entry.mac.is_zero());
    let problems = placement.problems.iter().map(ToString::to_string).collect();
    (home.map(|(key, _)| view.name_of(key.ifindex)), problems)
}

/// Returns the interfaces that an agent has attached the program to.
pub(super) fn attached(options: &Options) -> Result<Vec<u32>, BpfError> {
    match Reader::find(&Pins::new(&options.pin_dir)) {
        Ok(Some(reader)) => reader.segments(),
        Ok(None) | Err(_) => Ok(Vec::new()),
    }
}

pub(super) fn pins(options: &Options, view: &NetView) -> Look<State> {
    let dir = options.pin_dir.display();
    match Reader::find(&Pins::new(&options.pin_dir)) {
        Ok(None) => Look::Not(format!(
            "nothing is pinned under {dir}: no agent has run here (another directory: --pin-dir)"
        )),
        Ok(Some(reader)) => match reader.state(Extent::COUNTERS, view.clone()) {
            Ok(state) => Look::Seen(state),
            Err(unread) => Look::Failed(unread.reason),
        },
        Err(unread) => Look::Failed(unread.reason),
    }
}

/// Returns the interfaces on which the agent here takes no VIP for want of contact, as it says. Returns
/// none if no agent answers.
pub(super) fn without_contact(options: &Options) -> Vec<String> {
    let view = wire_report(&options.pin_dir).ok().and_then(|report| report.view);
    view.map(|view| view.without_contact).unwrap_or_default()
}

/// Returns the interfaces that have an entry of the address. The
/// value is true if the driver has native XDP.
pub(super) fn native(pins: &Look<State>, address: IpAddr) -> BTreeMap<u32, bool> {
    let Look::Seen(state) = pins else { return BTreeMap::new() };
    let interfaces = state.contents.entries_of(address).map(|entry| entry.key.ifindex);
    interfaces.filter_map(|ifindex| Some((ifindex, has_native_xdp(ifindex).ok()?))).collect()
}
