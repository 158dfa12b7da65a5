//! What this host has of an address: an agent's file, and its pins.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{FenceState, MacAddr, VipKey};

use super::{ExplainError, Options};
use crate::{
    core::{
        config::Config,
        explain::{EntryFacts, Listed, ListedVip, Look, Mode, Pinned, Running},
        net::{Interface, NetView},
        placement::{self, Wanted},
    },
    shell::{
        bpf::{self, BpfError, Maps},
        causes::chain,
        clock,
        doctor::has_native_xdp,
        run::read_config,
        status::{Entries, InterfaceStatus},
        who_has,
    },
};

/// What the agent's file says, and on which interface that is.
pub(super) fn config(options: &Options, view: &NetView) -> (Look<Listed>, Option<String>) {
    let Some(path) = &options.config else {
        return (Look::Not("no file was given (--config)".to_owned()), None);
    };
    let mut config = match read_config(path) {
        Ok(config) => config,
        Err(error) => return (Look::Failed(chain(&error)), None),
    };
    let file = path.display().to_string();
    // Placed alone, so that all problems are its own.
    config.vips.retain(|vip| vip.address == options.address);
    let Some(vip) = config.vips.first() else {
        return (Look::Seen(Listed { file, xdp: config.xdp, vip: None }), None);
    };
    let (interface, problems) = place(&config, view);
    let bind = vip.bind.as_ref().map(|bind| {
        let on = view.by_name(bind.as_str());
        let there = on.is_some_and(|on| on.addresses.iter().any(|net| net.addr() == options.address));
        (bind.as_str().to_owned(), there)
    });
    let listed = ListedVip { guarded: vip.mac, interface: interface.clone(), problems, bind };
    (Look::Seen(Listed { file, xdp: config.xdp, vip: Some(listed) }), interface)
}

fn place(config: &Config, view: &NetView) -> (Option<String>, Vec<String>) {
    let placed = BTreeMap::new();
    let placement =
        placement::place(config, config.vips.iter().map(Wanted::from), view, &placed, &|_| false, u32::MAX);
    let home = placement.desired.entries.iter().find(|(_, entry)| !entry.mac.is_zero());
    let problems = placement.problems.iter().map(ToString::to_string).collect();
    (home.map(|(key, _)| view.name_of(key.ifindex)), problems)
}

/// The interfaces that an agent has attached the program to.
pub(super) fn attached(options: &Options) -> Result<Vec<u32>, BpfError> {
    match who_has::Pinned::open(&options.pin_dir) {
        who_has::Pinned::Open(pins, _) => Ok(pins.links()?.iter().map(|link| link.ifindex).collect()),
        who_has::Pinned::None | who_has::Pinned::Unreadable(_) => Ok(Vec::new()),
    }
}

/// What is pinned of the address.
pub(super) fn pins(options: &Options, view: &NetView) -> Result<Look<Pinned>, ExplainError> {
    let dir = options.pin_dir.display().to_string();
    let (pins, maps) = match who_has::Pinned::open(&options.pin_dir) {
        who_has::Pinned::None => {
            return Ok(Look::Not(format!(
                "nothing is pinned under {dir}: no agent has run here (another directory: --pin-dir)"
            )));
        }
        who_has::Pinned::Unreadable(why) => return Ok(Look::Failed(why)),
        who_has::Pinned::Open(pins, maps) => (pins, maps),
    };
    let entries = Entries::new(&pins, &maps, view, clock::coarse_ns()?)?;
    let until_ns = match entries.fence_state() {
        FenceState::Valid => entries.fence.deadline_ns,
        FenceState::HeldOver => entries.fence.hold_until_ns,
        FenceState::Over => entries.now_ns,
    };
    Ok(Look::Seen(Pinned {
        dir,
        entries: facts(options, &maps, view, &entries)?,
        fence: entries.fence_state(),
        fence_left: Duration::from_nanos(until_ns.saturating_sub(entries.now_ns)),
    }))
}

fn facts(
    options: &Options,
    maps: &Maps,
    view: &NetView,
    entries: &Entries<'_>,
) -> Result<Vec<EntryFacts>, BpfError> {
    let mut facts = Vec::new();
    for (ifindex, interface) in &view.interfaces {
        let key = VipKey::untagged(*ifindex, options.address.octets());
        let Some(entry) = maps.entry(&key)? else { continue };
        let seen = entries.status(&key, &entry)?;
        let mac = seen.mac.unwrap_or(MacAddr::ZERO);
        let counts = seen.answered.zip(seen.conflicts).zip(seen.suppressed);
        facts.push(EntryFacts {
            interface: interface.name.clone(),
            role: seen.role,
            mac,
            yielded: seen.yielded,
            running: running(&entries.interfaces, interface),
            link_trouble: entries.link_trouble(*ifindex, mac),
            counts: counts.map(|((answered, conflicts), suppressed)| (answered, conflicts, suppressed)),
        });
    }
    Ok(facts)
}

/// How the program runs on an interface, if it does.
fn running(links: &[InterfaceStatus], interface: &Interface) -> Option<Running> {
    let link = links.iter().find(|link| link.ifindex == interface.index && link.attached)?;
    Some(Running {
        mode: match link.mode {
            bpf::Mode::Native => Mode::Native,
            bpf::Mode::Generic => Mode::Generic,
        },
        veth: interface.kind == "veth",
        offers_native: has_native_xdp(interface.index).ok(),
    })
}
