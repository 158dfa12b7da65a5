//! Reads this host's facts about an address: the agent's file, and the pinned state.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_core::{
    config::Config,
    diagnosis::{
        doctor::WireReport,
        explain::{Listed, ListedVip},
        fact::Fact,
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
    endpoints::wire_report,
    kernel::{
        bpf::{Pins, Reader},
        netdev::has_native_xdp,
    },
    logging::errors::{fact, unread},
};

/// Returns the contents of the agent's file about the address, and its interface.
pub(super) fn config(options: &Options, address: IpAddr, view: &NetView) -> (Fact<Listed>, Option<String>) {
    let Some(path) = &options.config else {
        return (Fact::skipped("no file was given (--config)"), None);
    };
    let mut config = match fact(read_config(path)) {
        Fact::Read(config) => config,
        Fact::Unread(why) => return (Fact::Unread(why), None),
    };
    let file = path.display().to_string();
    // The VIP is placed alone, so that every problem concerns it.
    config.vips.retain(|vip| vip.address == address);
    let Some(vip) = config.vips.first() else {
        return (Fact::Read(Listed { file, attach: config.attach, vip: None }), None);
    };
    let (interface, problems) = place(&config, view);
    let bind = vip.bind.as_ref().map(|bind| {
        let on = view.named(bind.as_str());
        let there = on.is_some_and(|on| on.addresses.iter().any(|net| net.addr() == address));
        (bind.as_str().to_owned(), there)
    });
    let listed = ListedVip { guarded: vip.mac, interface: interface.clone(), problems, bind };
    (Fact::Read(Listed { file, attach: config.attach, vip: Some(listed) }), interface)
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
pub(super) fn segments(options: &Options) -> Fact<Vec<u32>> {
    match Reader::find(&Pins::new(&options.pin_dir)) {
        Ok(Some(reader)) => fact(reader.segments()),
        Ok(None) => Fact::Read(Vec::new()),
        Err(why) => Fact::Unread(why),
    }
}

pub(super) fn pins(options: &Options, view: &NetView) -> Fact<Option<State>> {
    let state = |reader: Reader| reader.state(usize::MAX, view.clone()).map_err(|error| unread(&error));
    let found = Reader::find(&Pins::new(&options.pin_dir));
    found.and_then(|reader| reader.map(state).transpose()).into()
}

/// Returns the interfaces on which this host's agent takes no VIP because their link is one-way.
pub(super) fn without_contact(options: &Options) -> Fact<Vec<String>> {
    let names = |report: WireReport| report.view.into_iter().flat_map(|view| view.without_contact);
    wire_report(&options.pin_dir).map(|report| names(report).collect())
}

/// Returns the interfaces that see the requests for the address: those that have an entry of it, and
/// those whose program answers there. The value is true if the driver has native XDP.
pub(super) fn native(pins: &Fact<Option<State>>, address: IpAddr) -> BTreeMap<u32, Fact<bool>> {
    let Fact::Read(Some(state)) = pins else { return BTreeMap::new() };
    let interfaces = state.contents.entries_of(address).flat_map(|entry| {
        let ifindex = entry.key.ifindex;
        state.link_of(ifindex).map(|(point, ..)| point).into_iter().chain([ifindex])
    });
    interfaces.map(|ifindex| (ifindex, has_native_xdp(ifindex).into())).collect()
}
