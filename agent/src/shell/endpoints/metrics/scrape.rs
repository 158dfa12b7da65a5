//! The metrics that are read at each scrape.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use vipward_common::{
    Counters, DeadlineState, MAX_OWN_MACS, MAX_PEERS, Outcome, Policy, Proof, VIP_COUNTER_SLOTS, VipFault,
    WireOutcome, maps as names,
};
use vipward_core::{
    agent::{self, InterfaceSnapshot, VipSnapshot},
    diagnosis::{
        doctor::{FileReport, WireReport},
        pinned::{self, Contents},
    },
    host::{
        answering::Part,
        net::{Interface, InterfaceFault},
        placement::Entry,
    },
};

use super::{
    metallb::MetalLbSnapshot,
    page::{IPV4, IPV6, Page, is, size},
};

#[cfg(test)]
pub(super) mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Standalone,
    Kubernetes,
}

impl Mode {
    /// Returns the subcommand's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "agent",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// The state that the event loop has in memory.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub agent: agent::Snapshot,
    pub mode: Mode,
    pub wire: Option<WireReport>,
    /// The file of a standalone agent.
    pub file: Option<FileReport>,
    /// What there is instead of `MetalLB`.
    pub metallb: Option<MetalLbSnapshot>,
    /// The number of open problems, as in the log.
    pub problems: usize,
}

#[derive(Debug)]
pub(super) struct Scrape {
    kernel: Option<Contents>,
    snapshot: Option<Snapshot>,
    max_vips: usize,
}

/// A VIP with all its entries, one on every attached interface.
#[derive(Clone, Copy, Default, Debug)]
struct Vip {
    held: bool,
    yielded: bool,
    counted: bool,
    answered: u64,
    conflicts: u64,
    suppressed: u64,
}

impl Scrape {
    pub(super) fn new(kernel: Option<Contents>, snapshot: Option<Snapshot>, max_vips: usize) -> Self {
        Self { kernel, snapshot, max_vips }
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut page = Page(encoder);
        let build =
            self.snapshot.as_ref().map(|snapshot| (snapshot.mode.name(), snapshot.agent.node.as_str()));
        let (mode, node) = build.unwrap_or_default();
        page.build(mode, node)?;
        page.value(
            "kernel_readable",
            "0: the maps could not be read; their metrics are missing",
            is(self.kernel.is_some()),
        )?;
        page.value(
            "driver_answering",
            "0: the event loop did not answer within 2 s; its metrics are missing",
            is(self.snapshot.is_some()),
        )?;
        let mut vips = BTreeMap::new();
        if let Some(kernel) = &self.kernel {
            let parts = parts(kernel, self.snapshot.as_ref());
            vips = by_vip(&parts);
            page.frames(kernel)?;
            page.lease_deadline(kernel)?;
            page.maps(kernel)?;
            page.roles(&parts)?;
        }
        if let Some(snapshot) = &self.snapshot {
            page.interfaces(snapshot)?;
            page.totals(snapshot, &vips, self.kernel.is_some())?;
            if let Some(wire) = &snapshot.wire {
                page.liveness(wire)?;
            }
            if let Some(file) = &snapshot.file {
                page.file(file)?;
            }
        }
        let dropped = vips.len() > self.max_vips;
        page.value(
            "vip_series_dropped",
            "1 while there are more VIPs than --metrics-max-vips, so that none has series of its own",
            is(dropped),
        )?;
        if dropped { Ok(()) } else { page.each_vip(&vips, self.snapshot.as_ref()) }
    }
}

/// Returns each entry with this node's part in answering. Without the event
/// loop's state, every interface counts as good.
fn parts<'a>(kernel: &'a Contents, snapshot: Option<&Snapshot>) -> Vec<(Part, &'a pinned::Entry)> {
    let lease_deadline = kernel.lease_deadline_state();
    let trouble = |entry: &pinned::Entry| {
        let interfaces = &snapshot?.agent.interfaces;
        match interfaces.iter().find(|it| it.ifindex == entry.key.ifindex) {
            Some(it) => {
                let proof = kernel.proof(it.ifindex);
                InterfaceFault::of(it.seen.as_ref(), it.attached, entry.mac, proof)
            }
            None => Some(InterfaceFault::NotAttached),
        }
    };
    let part = |entry: &pinned::Entry| Part::of(entry.role, lease_deadline, trouble(entry), entry.fault);
    kernel.entries.iter().map(|entry| (part(entry), entry)).collect()
}

fn by_vip(parts: &[(Part, &pinned::Entry)]) -> BTreeMap<IpAddr, Vip> {
    let mut vips: BTreeMap<IpAddr, Vip> = BTreeMap::new();
    for (part, entry) in parts {
        let vip = vips.entry(entry.address()).or_default();
        vip.held |= matches!(part, Part::Held | Part::Failing(_));
        vip.yielded |= entry.yielded;
        if let Some(count) = entry.count {
            vip.counted = true;
            vip.answered = vip.answered.wrapping_add(count.answered);
            vip.conflicts = vip.conflicts.wrapping_add(count.conflicts);
            vip.suppressed = vip.suppressed.wrapping_add(count.suppressed);
        }
    }
    vips
}

impl Page<'_> {
    fn frames(&mut self, kernel: &Contents) -> fmt::Result {
        let families = [(IPV4, &kernel.counters), (IPV6, &kernel.counters_v6)];
        // ARP has no checksum. What counts with it is unverified for its tags, whatever is behind them.
        let of_none = |family, outcome| match outcome {
            Outcome::Unrelated => true,
            Outcome::Unverified => family == IPV4,
            _ => false,
        };
        let of_family = |(family, counters): (&'static str, &Counters)| {
            let (counters, outcomes) = (*counters, Outcome::ALL.iter().copied());
            let outcomes = outcomes.filter(move |outcome| !of_none(family, *outcome));
            outcomes.map(move |it| ([("family", family), ("outcome", it.name())], counters.get(it)))
        };
        let of_no_family = [Outcome::Unrelated, Outcome::Unverified]
            .map(|it| ([("family", "none"), ("outcome", it.name())], kernel.counters.get(it)));
        self.counts(
            "frames",
            "Frames that the program has seen, by outcome: ARP (ipv4), neighbour discovery (ipv6) and others (none)",
            families.into_iter().flat_map(of_family).chain(of_no_family),
        )?;
        let wire = kernel.wire.counters;
        self.counts(
            "wire_frames",
            "Frames of the failure detector that the program has seen, by outcome",
            WireOutcome::ALL.iter().map(|outcome| ([("outcome", outcome.name())], wire.get(*outcome))),
        )?;
        self.counts(
            "claims_defended",
            "Dropped claims in whose place the program announced the VIP",
            families.map(|(family, counters)| ([("family", family)], counters.claims_defended)),
        )?;
        let lost = families.map(|(_, counters)| counters.events_lost).iter().sum();
        self.total(
            "events_lost",
            "Events that found the ring buffer full; answers do not depend on them",
            lost,
        )?;
        self.total(
            "yields",
            "VIPs that the program yielded to a peer after the lease deadline had passed",
            kernel.yields,
        )
    }

    fn lease_deadline(&mut self, kernel: &Contents) -> fmt::Result {
        let lease_deadline = &kernel.lease_deadline;
        let left =
            |until_ns: u64| kernel.left(until_ns).as_secs_f64() - kernel.passed(until_ns).as_secs_f64();
        self.seconds(
            "lease_deadline_left",
            "Time until the lease deadline, negative when it has passed",
            left(lease_deadline.deadline_ns),
        )?;
        self.seconds(
            "grace_period_left",
            "Time until the grace period ends; a living agent extends it; negative when it has ended",
            left(lease_deadline.grace_until_ns),
        )?;
        let state = kernel.lease_deadline_state();
        let states =
            [("valid", DeadlineState::Valid), ("grace", DeadlineState::Grace), ("over", DeadlineState::Over)]
                .map(|(name, of)| ([("state", name)], is(of == state)));
        self.values("lease_deadline_state", "1 for the state of the lease deadline", states)?;
        let policies = Policy::ALL.map(|of| ([("policy", of.name())], is(of == lease_deadline.policy)));
        self.values(
            "lease_deadline_policy",
            "1 for what the program does after the lease deadline: stop or hold",
            policies,
        )
    }

    fn maps(&mut self, kernel: &Contents) -> fmt::Result {
        let of_family =
            |is_v4| kernel.entries.iter().filter(|entry| entry.address().is_ipv4() == is_v4).count();
        let entries = [
            (names::VIPS_V4, of_family(true)),
            (names::VIPS_V6, of_family(false)),
            (names::OWN_MACS, kernel.own_macs.len()),
            (names::PEERS, kernel.peers.len()),
        ];
        self.values(
            "map_entries",
            "Entries of the pinned maps vips_v4, vips_v6, own_macs and peers",
            entries.map(|(map, entries)| ([("map", map)], size(entries))),
        )?;
        let room = [
            (names::VIPS_V4, kernel.max_vips),
            (names::VIPS_V6, kernel.max_vips),
            (names::OWN_MACS, MAX_OWN_MACS),
            (names::PEERS, MAX_PEERS),
            (names::VIP_COUNTERS, VIP_COUNTER_SLOTS),
        ];
        self.values(
            "map_capacity",
            "Room in the maps vips_v4, vips_v6, own_macs and peers; in vip_counters: VIPs with counts of their own",
            room.map(|(map, room)| ([("map", map)], f64::from(room))),
        )
    }

    fn roles(&mut self, parts: &[(Part, &pinned::Entry)]) -> fmt::Result {
        let with = |fault| parts.iter().filter(|(part, _)| *part == Part::Failing(fault)).count();
        self.values(
            "vips_unreached",
            "VIPs of this node whose clients do not reach it: the network drops requests or answers",
            VipFault::ALL.map(|fault| ([("fault", fault.word())], size(with(fault)))),
        )?;
        let count = |family, name| {
            let is_one = |(part, entry): &&(Part, &pinned::Entry)| {
                part.name() == name && family_of(entry.address()) == family
            };
            size(parts.iter().filter(is_one).count())
        };
        let roles = [IPV4, IPV6].into_iter().flat_map(|family| {
            Part::NAMES.map(|role| ([("family", family), ("role", role)], count(family, role)))
        });
        self.values("entries", "Entries by role; a VIP has one on each attached interface", roles)
    }

    fn interfaces(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let interfaces = &snapshot.agent.interfaces;
        let attached = interfaces
            .iter()
            .map(|it| ([("interface", it.interface.as_str()), ("mode", it.mode.name())], is(it.attached)));
        self.values(
            "link_attached",
            "1: a program in this mode sees the frames; 0: one should and does not",
            attached,
        )?;
        let vlan = |it: &InterfaceSnapshot| it.seen.as_ref().and_then(Interface::vlan_id).unwrap_or(0);
        let vlans = interfaces.iter().map(|it| ([("interface", it.interface.as_str())], f64::from(vlan(it))));
        self.values("link_vlan", "The VLAN ID of an interface, 0 for none", vlans)?;
        let carrier =
            interfaces.iter().map(|it| ([("interface", it.interface.as_str())], is(it.has_carrier())));
        self.values(
            "link_carrier",
            "1 while an interface that the program is on, or is to be on, is up and has carrier",
            carrier,
        )?;
        let proofs = interfaces.iter().flat_map(|it| {
            let labels = |proof| [("interface", it.interface.as_str()), ("proof", proof)];
            Proof::NAMES.map(|proof| (labels(proof), is(proof == it.proof.name())))
        });
        self.values(
            "link_proof",
            "1 for one of unproven, proven, blind: does the program see the frames of the interface",
            proofs,
        )
    }

    fn file(&mut self, file: &FileReport) -> fmt::Result {
        self.value(
            "config_last_reload_successful",
            "0: the agent of a file runs with an earlier one",
            is(file.refused.is_none()),
        )?;
        #[expect(clippy::cast_precision_loss, reason = "exact for 285 million years")]
        let read_at = file.read_at_unix_seconds as f64;
        self.seconds(
            "config_last_reload_success_timestamp",
            "When the last file without a fault was read",
            read_at,
        )
    }

    fn totals(&mut self, snapshot: &Snapshot, vips: &BTreeMap<IpAddr, Vip>, readable: bool) -> fmt::Result {
        self.seconds(
            "lease_duration",
            "How long one renewal is valid, as configured",
            snapshot.agent.lease_duration.as_secs_f64(),
        )?;
        self.value("problems", "Current problems; the log has each in words", size(snapshot.problems))?;
        let to_hold = snapshot.agent.vips.iter().filter(|vip| vip.entry == Entry::Held);
        // The map has a yield before the event loop does. The event loop keeps it when the entry goes
        // with its interface.
        let has_holder = |vip: &VipSnapshot| {
            vip.yielded || vips.get(&vip.vip).is_some_and(|found| found.held || found.yielded)
        };
        let without_holder = to_hold.clone().filter(|vip| !has_holder(vip)).count();
        self.value(
            "vips_to_hold",
            "VIPs that this node is to hold, by its file or the claims",
            size(to_hold.count()),
        )?;
        self.value(
            "vips_unanswered",
            "VIPs of this node that it has not answered for lease + margin (standalone: the duration of a renewal)",
            size(snapshot.agent.unanswered.len()),
        )?;
        if let Some(claims) = &snapshot.agent.claims {
            self.value("vips", "VIPs that Services of the cluster want", size(claims.epochs.len()))?;
            self.value(
                "nodes_alive",
                "Nodes whose Leases are renewed, as this node sees it; 0 after its own lease deadline",
                size(claims.nodes_alive),
            )?;
            return self.without_holder(claims.without_holder);
        }
        if readable { self.without_holder(without_holder) } else { Ok(()) }
    }

    fn without_holder(&mut self, vips: usize) -> fmt::Result {
        self.value(
            "vips_without_holder",
            "VIPs without a holder: in a cluster, Services want them, and no living node has the claim; standalone, \
             they are in the file and not answered, except addresses in use and VIPs yielded to a peer",
            size(vips),
        )
    }

    fn each_vip(&mut self, vips: &BTreeMap<IpAddr, Vip>, snapshot: Option<&Snapshot>) -> fmt::Result {
        let named: Vec<(&'static str, String, Vip)> =
            vips.iter().map(|(address, vip)| (family_of(*address), address.to_string(), *vip)).collect();

        let held = named.iter().map(|(family, name, vip)| (labels(family, name.as_str()), is(vip.held)));
        self.values("vip_held", "1 while this node holds a VIP and answers for it", held)?;
        let counted = || named.iter().filter(|(_, _, vip)| vip.counted);
        let of = |count: fn(&Vip) -> u64| {
            counted().map(move |(family, name, vip)| (labels(family, name.as_str()), count(vip)))
        };
        self.counts("vip_answered", "Requests for a VIP that were answered", of(|vip| vip.answered))?;
        self.counts(
            "vip_conflicts",
            "Claims of unknown hosts on a VIP that were dropped",
            of(|vip| vip.conflicts),
        )?;
        self.counts(
            "vip_suppressed",
            "Requests dropped because another node has the VIP or the lease deadline had passed",
            of(|vip| vip.suppressed),
        )?;
        let Some(claims) = snapshot.and_then(|snapshot| snapshot.agent.claims.as_ref()) else {
            return Ok(());
        };
        let epochs: Vec<_> = claims
            .epochs
            .iter()
            .filter(|(vip, _)| vips.contains_key(vip))
            .map(|(vip, epoch)| (family_of(*vip), vip.to_string(), *epoch))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "no VIP changes its holder 2^53 times")]
        let epochs = epochs.iter().map(|(family, vip, epoch)| (labels(family, vip.as_str()), *epoch as f64));
        self.values("vip_epoch", "Changes of the VIP's holder, by its claim; the same on every node", epochs)
    }
}

fn family_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

fn labels<'a>(family: &'static str, vip: &'a str) -> [(&'static str, &'a str); 2] {
    [("family", family), ("vip", vip)]
}
