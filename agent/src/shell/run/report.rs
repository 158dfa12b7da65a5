//! What the operator reads: log lines about the data plane, the problems and the trouble on the wire.

use std::{collections::BTreeSet, net::Ipv4Addr, path::Path};

use tracing::{info, warn};
use vipward_common::{EventKind, MacAddr, OPER_REQUEST, VipKey};

use crate::{
    core::{
        net::NetView,
        trouble::{Claim, Line},
    },
    shell::bpf::Opening,
};

/// The problems that stand, each logged when it comes and when it goes.
#[derive(Default)]
pub(super) struct Problems(BTreeSet<String>);

impl Problems {
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
            kind = kind_name(claim.kind),
            vip = %vip(&claim.key),
            interface = %view.name_of(claim.key.ifindex),
            mac = %claim.offender,
            eth_source = %claim.source,
            oper = oper_name(claim.oper),
            times = claim.times,
            "another MAC claims the VIP"
        ),
        Line::GoesOn { kind, key, times, offenders, more } => warn!(
            kind = kind_name(*kind),
            vip = %vip(key),
            interface = %view.name_of(key.ifindex),
            times,
            macs = macs(offenders),
            more_macs = more,
            "claims go on"
        ),
        Line::Ended { kind, key, times, lasted, offenders } => info!(
            kind = kind_name(*kind),
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
        EventKind::Conflict => "conflict: a stranger claims the VIP, and the claim is dropped",
        EventKind::Contested => "contested: a peer claims a VIP that we hold, and the claim is dropped",
        EventKind::Moved => "moved: a peer announced the VIP",
        EventKind::Yielded => {
            "yielded: the VIP went to a peer while our fence had lapsed; SIGHUP takes it back"
        }
        EventKind::Sighted => "sighted: somebody claims a VIP whose holder is not known",
    };
    warn!(
        kind = kind_name(claim.kind),
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

fn vip(key: &VipKey) -> Ipv4Addr {
    key.addr.into()
}

fn macs(macs: &[MacAddr]) -> String {
    macs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Conflict => "conflict",
        EventKind::Contested => "contested",
        EventKind::Moved => "moved",
        EventKind::Yielded => "yielded",
        EventKind::Sighted => "sighted",
    }
}

fn oper_name(oper: u16) -> &'static str {
    if oper == OPER_REQUEST { "request" } else { "reply" }
}
