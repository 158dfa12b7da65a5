//! What the operator reads: log lines about the data plane, the problems and the trouble on the wire.

use std::{collections::BTreeSet, net::Ipv4Addr, path::Path};

use tracing::{info, warn};
use vipward_common::{EventKind, MacAddr, OPER_REQUEST, VipKey};

use crate::{
    core::{
        conflict::{self, Sight, What},
        net::NetView,
        trouble::{Claim, Line},
        vendor,
    },
    shell::bpf::Opening,
};

/// The problems that stand, each logged when it comes and when it goes.
#[derive(Default)]
pub(super) struct Problems(BTreeSet<String>);

impl Problems {
    /// All that stand.
    pub(super) fn standing(&self) -> &BTreeSet<String> {
        &self.0
    }

    /// Takes note of all that stand now.
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

/// What was found pinned.
pub(super) fn opening(opening: Opening, pin_dir: &Path) {
    let pin_dir = pin_dir.display();
    match opening {
        Opening::Fresh => info!(%pin_dir, "data plane made"),
        Opening::Reused => info!(%pin_dir, "data plane found pinned, and gone on with"),
        Opening::Resized { from, to, dropped } => info!(%pin_dir, from, to, dropped, "data plane resized"),
        Opening::Migrated { from, to, dropped } => {
            info!(%pin_dir, from, to, dropped, "data plane migrated from another ABI version");
        }
    }
}

/// One line of a case.
pub(super) fn trouble(line: &Line, view: &NetView) {
    match line {
        Line::Started(claim) => started(claim, view),
        Line::NewOffender(claim) => warn!(
            kind = claim.kind.name(),
            vip = %vip(&claim.key),
            interface = %view.name_of(claim.key.ifindex),
            mac = %claim.offender,
            eth_source = %claim.source,
            oper = oper_name(claim.oper),
            times = claim.times,
            "another MAC claims the VIP"
        ),
        Line::GoesOn { kind, key, times, offenders, more } => warn!(
            kind = kind.name(),
            vip = %vip(key),
            interface = %view.name_of(key.ifindex),
            times,
            macs = macs(offenders),
            more_macs = more,
            "claims go on"
        ),
        Line::Ended { kind, key, times, lasted, offenders } => info!(
            kind = kind.name(),
            vip = %vip(key),
            interface = %view.name_of(key.ifindex),
            times,
            lasted_seconds = lasted.as_secs(),
            macs = macs(offenders),
            "claims are over"
        ),
        Line::TooMany { times } => warn!(times, "claims on more VIPs than are told apart"),
    }
}

fn started(claim: &Claim, view: &NetView) {
    let what = match claim.kind {
        EventKind::Contested => "contested: a peer claims a VIP that we hold, and the claim is dropped",
        EventKind::Moved => "moved: a peer announced the VIP",
        EventKind::Yielded => {
            "yielded: the VIP went to a peer while our fence had lapsed; SIGHUP takes it back"
        }
        EventKind::Sighted => "sighted: somebody claims a VIP whose holder is not known",
        EventKind::Conflict | EventKind::Probed => "a stranger claims the VIP",
    };
    warn!(
        kind = claim.kind.name(),
        vip = %vip(&claim.key),
        interface = %view.name_of(claim.key.ifindex),
        mac = %claim.offender,
        eth_source = %claim.source,
        oper = oper_name(claim.oper),
        holder = %claim.holder,
        times = claim.times,
        "{what}"
    );
}

/// One line of a conflict.
pub(super) fn conflict(line: &conflict::Line, view: &NetView) {
    use conflict::Line;

    match line {
        Line::Began { conflict, sight } => began(conflict, sight, view),
        Line::NewOffender { conflict, mac } => {
            for offender in conflict.offenders.iter().filter(|offender| offender.mac == *mac) {
                new_offender(conflict, offender, view);
            }
        }
        Line::GoesOn { conflict, times } => warn!(
            kind = "conflict",
            what = conflict.what.name(),
            vip = %vip(&conflict.key),
            interface = %view.name_of(conflict.key.ifindex),
            times,
            macs = offenders(conflict),
            more_macs = conflict.more,
            defences = conflict.defences,
            "claims go on"
        ),
        Line::Ended { conflict, why } => info!(
            kind = "conflict",
            what = conflict.what.name(),
            vip = %vip(&conflict.key),
            interface = %view.name_of(conflict.key.ifindex),
            times = conflict.claims,
            lasted_seconds = conflict.last.saturating_since(conflict.begun).as_secs(),
            macs = offenders(conflict),
            cause = why.name(),
            "claims are over"
        ),
        Line::TooMany { times } => warn!(times, "conflicts about more VIPs than are told apart"),
    }
}

fn began(conflict: &conflict::Conflict, sight: &Sight, view: &NetView) {
    let what = match conflict.what {
        What::Held | What::Guarded => "conflict: a stranger claims the VIP, and the claim is dropped",
        What::InUse => "conflict: the address is in use by a stranger; the VIP waits until it is free",
    };
    warn!(
        kind = "conflict",
        what = conflict.what.name(),
        vip = %vip(&conflict.key),
        interface = %view.name_of(conflict.key.ifindex),
        mac = %sight.mac,
        vendor = %vendor::of(sight.mac),
        eth_source = %sight.source,
        oper = oper_name(sight.oper),
        holder = %conflict.holder,
        times = sight.times,
        "{what}"
    );
}

fn new_offender(conflict: &conflict::Conflict, offender: &conflict::Offender, view: &NetView) {
    warn!(
        kind = "conflict",
        what = conflict.what.name(),
        vip = %vip(&conflict.key),
        interface = %view.name_of(conflict.key.ifindex),
        mac = %offender.mac,
        vendor = %vendor::of(offender.mac),
        eth_source = %offender.source,
        oper = oper_name(offender.oper),
        holder = %conflict.holder,
        times = offender.claims,
        "another MAC claims the VIP"
    );
}

fn offenders(conflict: &conflict::Conflict) -> String {
    macs(&conflict.offenders.iter().map(|offender| offender.mac).collect::<Vec<_>>())
}

fn vip(key: &VipKey) -> Ipv4Addr {
    key.addr.into()
}

fn macs(macs: &[MacAddr]) -> String {
    macs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn oper_name(oper: u16) -> &'static str {
    if oper == OPER_REQUEST { "request" } else { "reply" }
}
