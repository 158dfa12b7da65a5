//! Log lines about the data plane, problems, and conflicts.

use std::{collections::BTreeSet, path::Path};

use tracing::{info, warn};
use vipward_common::{
    OPER_REQUEST, TYPE_ADVERTISEMENT, TYPE_REDIRECT, TYPE_ROUTER_SOLICITATION, TYPE_SOLICITATION,
};
use vipward_core::{
    host::net::NetView,
    segment::conflict::{Conflict, Line, Offender, Right, Sight, What},
};

use crate::shell::{kernel::bpf::Opening, logging::lines::Trouble};

/// Most VIPs or entries with one log line each. A larger number gets one line.
pub(super) const MOST_LINES: usize = 64;

const ANOTHER: &str = "another MAC claims the VIP";
const GOES_ON: &str = "claims go on";
const OVER: &str = "claims are over";
const TOO_MANY: &str = "claims not listed: too many conflicts are open";

/// The open problems. Each is logged when it begins and when it ends.
#[derive(Default)]
pub(super) struct Problems(BTreeSet<String>);

impl Problems {
    /// Returns the open problems.
    pub(super) fn standing(&self) -> &BTreeSet<String> {
        &self.0
    }

    /// Replaces the open problems, and logs the differences.
    pub(super) fn replace(&mut self, now: BTreeSet<String>) {
        for problem in now.difference(&self.0) {
            warn!(problem = %problem, "problem");
        }
        for problem in self.0.difference(&now) {
            info!(problem = %problem, "problem is over");
        }
        self.0 = now;
    }
}

/// Logs the state of the pins at the start.
pub(super) fn opening(opening: &Opening, pin_dir: &Path) {
    let pin_dir = pin_dir.display();
    match opening {
        Opening::Fresh => info!(%pin_dir, "data plane made"),
        Opening::Reused => info!(%pin_dir, "reusing pinned data plane"),
        Opening::Resized { from, to, dropped } => info!(%pin_dir, from, to, dropped, "data plane resized"),
        Opening::Migrated { change, dropped } => {
            info!(%pin_dir, %change, dropped, "data plane migrated from another layout");
        }
        Opening::Repeated { dropped } => {
            info!(%pin_dir, dropped, "data plane replaced, as an agent that was killed had begun to");
        }
    }
}

/// Returns the message of the line about a conflict.
pub(super) fn message(line: &Line) -> Trouble {
    match line {
        Line::Began { sight, .. } => Trouble::Is(beginning(sight)),
        Line::NewOffender { .. } => Trouble::Is(ANOTHER),
        Line::GoesOn { .. } => Trouble::Is(GOES_ON),
        Line::Ended { .. } => Trouble::Over(OVER),
        Line::TooMany { .. } => Trouble::Is(TOO_MANY),
    }
}

/// Logs the line about a conflict.
pub(super) fn conflict(line: &Line, view: &NetView) {
    match line {
        Line::Began { conflict, sight } => {
            let Sight { mac, source, oper, times: claims, at, .. } = *sight;
            let offender = Offender { mac, source, oper, first: at, last: at, claims };
            warn_of(conflict, &offender, view, beginning(sight));
        }
        Line::NewOffender { conflict, mac } => {
            for offender in conflict.offenders.iter().filter(|offender| offender.mac == *mac) {
                warn_of(conflict, offender, view, ANOTHER);
            }
        }
        Line::GoesOn { conflict, times } => warn!(
            kind = conflict.what.kind(),
            what = conflict.what.name(),
            vip = %conflict.key.addr,
            interface = %view.name_of(conflict.key.ifindex),
            vlan = view.vlan_of(conflict.key.ifindex),
            times,
            macs = macs(conflict),
            more_macs = conflict.more,
            defences = conflict.defences,
            "{GOES_ON}"
        ),
        Line::Ended { conflict, why } => info!(
            kind = conflict.what.kind(),
            what = conflict.what.name(),
            vip = %conflict.key.addr,
            interface = %view.name_of(conflict.key.ifindex),
            vlan = view.vlan_of(conflict.key.ifindex),
            times = conflict.claims,
            lasted_seconds = conflict.last.saturating_since(conflict.begun).as_secs(),
            macs = macs(conflict),
            cause = why.name(),
            "{OVER}"
        ),
        Line::TooMany { times } => warn!(times, "{TOO_MANY}"),
    }
}

/// Returns the log message for the beginning of a conflict.
fn beginning(sight: &Sight) -> &'static str {
    match (sight.what, sight.right) {
        (What::Held | What::Guarded, _) => "conflict: a stranger claims the VIP, and the claim is dropped",
        (What::InUse, _) => "conflict: the address is in use by a stranger; the VIP waits until it is free",
        (What::Sighted, _) => "sighted: a stranger claims a VIP whose holder is not known",
        (What::Contested, _) if sight.source != sight.mac => {
            "contested: a host claims, in a peer's name, a VIP that this node holds, and the claim is dropped"
        }
        (What::Contested, _) => {
            "contested: a peer claims a VIP that this node holds, and the claim is dropped"
        }
        (What::Moved, Right::NoClaims) => "moved: a peer announced the VIP",
        (What::Moved, _) => "moved: a peer announced the VIP, and the VIP's claim does not name that peer",
        (What::Yielded, Right::NoClaims) => {
            "yielded: the VIP went to a peer while this node's fence had lapsed; SIGHUP takes it back from \
             a peer that answers"
        }
        (What::Yielded, _) => {
            "yielded: the VIP went to a peer while this node's fence had lapsed, and its claim does not name that peer"
        }
    }
}

fn warn_of(conflict: &Conflict, offender: &Offender, view: &NetView, message: &str) {
    warn!(
        kind = conflict.what.kind(),
        what = conflict.what.name(),
        vip = %conflict.key.addr,
        interface = %view.name_of(conflict.key.ifindex),
        vlan = view.vlan_of(conflict.key.ifindex),
        mac = %offender.mac,
        vendor = %vipward_vendors::of(offender.mac),
        eth_source = %offender.source,
        oper = message_name(offender.oper),
        holder = %conflict.holder,
        times = offender.claims,
        "{message}"
    );
}

/// Returns the name of a message: oper of ARP, or the type of `ICMPv6`, which no oper has.
fn message_name(oper: u16) -> &'static str {
    match u8::try_from(oper) {
        Ok(TYPE_ROUTER_SOLICITATION) => "router solicitation",
        Ok(TYPE_SOLICITATION) => "solicitation",
        Ok(TYPE_ADVERTISEMENT) => "advertisement",
        Ok(TYPE_REDIRECT) => "redirect",
        _ if oper == OPER_REQUEST => "request",
        _ => "reply",
    }
}

fn macs(conflict: &Conflict) -> String {
    let macs: Vec<String> = conflict.offenders.iter().map(|offender| offender.mac.to_string()).collect();
    macs.join(" ")
}
