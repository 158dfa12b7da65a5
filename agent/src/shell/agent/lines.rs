//! Log lines: the text of the agent's reports, and the limits of their number.

use std::{collections::BTreeSet, io, net::IpAddr, path::Path};

use tracing::{debug, error, info, warn};
use vipward_common::{
    MacAddr, OPER_REQUEST, Proof, TYPE_ADVERTISEMENT, TYPE_REDIRECT, TYPE_ROUTER_SOLICITATION,
    TYPE_SOLICITATION, Twin, VipEntry, VipFault,
};
use vipward_core::{
    agent::{Agent, Line, segment::Note},
    base::time::Monotonic,
    delivery::News,
    diagnosis::doctor::{Agent as Running, OtherPins},
    host::{
        heartbeat::Late,
        net::NetView,
        plan::Cause,
        stale::{Changes, Failure},
    },
    ownership::Notice,
    records::NodeName,
    reports::refusals,
    segment::{
        confirming::Answerer,
        conflict::{self, Conflict, Offender, Right, Sight, What},
        own_frames,
        proving::Received,
        rivals::Yield,
    },
};

use super::timing::millis;
use crate::shell::{
    endpoints::metrics::Metrics,
    kernel::bpf::{self, Opening},
    logging::lines::{Lines, Trouble},
};

/// Most VIPs or entries with one log line each. A larger number gets one line.
const MOST_LINES: usize = 64;
/// Most changes of entries at once with one log line each.
const MOST_ENTRIES: u32 = 16;
/// Most VIPs that this node gets at once with one log line each.
const MOST_GAINS: u32 = 8;

const UNREAD: &str = "failed to read the kernel's state back; trying again";
const REMOVED: &str = "another program has removed Vipward's from the interface; it is attached again";
const NO_HOLDER: &str = "no node can hold the VIP";
const ANOTHER: &str = "another MAC claims the VIP";
const DOUBLED: &str = "doubled: a peer answers for a VIP that this node holds, so both answer";
const ALONE: &str = "no longer doubled: no peer answers for the VIP";
const GOES_ON: &str = "claims go on";
const OVER: &str = "claims are over";
const TOO_MANY: &str = "claims not listed: too many conflicts are open";

pub(super) struct Log {
    /// The open problems. Each is logged when it begins and when it ends.
    problems: BTreeSet<String>,
    /// Changes of entries, by the roles before and after.
    entries: Lines<(&'static str, &'static str)>,
    conflicts: Lines<Trouble>,
    /// VIPs that this node got, by their former holder.
    gains: Lines<Option<NodeName>>,
    /// Other trouble.
    trouble: Lines<Trouble>,
}

impl Log {
    pub(super) fn start(now: Monotonic) -> Self {
        Self {
            problems: BTreeSet::new(),
            entries: Lines::start(
                MOST_ENTRIES,
                |(from, to), entries| info!(entries, from, to, "more entries changed"),
                now,
            ),
            conflicts: Trouble::lines(now),
            gains: Lines::start(
                MOST_GAINS,
                |from: Option<NodeName>, vips| {
                    info!(vips, from = from.as_ref().map(NodeName::as_str), "this node holds more VIPs");
                },
                now,
            ),
            trouble: Trouble::lines(now),
        }
    }

    pub(super) fn open_problems(&self) -> &BTreeSet<String> {
        &self.problems
    }

    /// Replaces the open problems, and logs the differences.
    pub(super) fn problems(&mut self, now: BTreeSet<String>) {
        for problem in now.difference(&self.problems) {
            warn!(problem = %problem, "a problem has begun");
        }
        for problem in self.problems.difference(&now) {
            info!(problem = %problem, "the problem is over");
        }
        self.problems = now;
    }

    /// Logs the numbers that are due.
    pub(super) fn on_time(&mut self, now: Monotonic) {
        self.entries.on_time(now);
        self.conflicts.on_time(now);
        self.gains.on_time(now);
        self.trouble.on_time(now);
    }

    /// Returns the time of the next [`Log::on_time`].
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let lines = [self.conflicts.next_deadline(), self.trouble.next_deadline()];
        let lines = lines.into_iter().chain([self.entries.next_deadline(), self.gains.next_deadline()]);
        lines.flatten().min()
    }

    /// Writes a line, unless there are too many of its kind.
    pub(super) fn line(&mut self, line: &Line, agent: &Agent, metrics: &Metrics, now: Monotonic) {
        match line {
            Line::Configured => info!("configuration is applied"),
            Line::Reclaims => info!("yielded VIPs are taken back, as SIGHUP asks"),
            Line::Unsettled { vips, within } => info!(
                vips_left_out = vips,
                applied_within_ms = millis(*within),
                "the file changes or leaves out what is in force; it is applied if it does not change meanwhile"
            ),
            Line::Unobserved(error) => warn!(error, "the network could not be observed; trying again"),
            Line::Overrun => warn!("network notifications were lost; everything is observed again"),
            Line::Removed { interface, own, instead } => {
                if self.trouble.admits(Trouble::Is(REMOVED), now) {
                    let instead: Vec<String> = instead.iter().map(|id| bpf::describe(*id)).collect();
                    let instead = if instead.is_empty() { "none".to_owned() } else { instead.join("; ") };
                    warn!(interface, mode = %own.mode, program = own.id, instead, "{REMOVED}");
                }
            }
            Line::Unread(error) => {
                if self.trouble.admits(Trouble::Is(UNREAD), now) {
                    error!(error, "{UNREAD}");
                }
            }
            Line::PeersUnwritten(error) => error!(error, "failed to write the peers; trying again"),
            Line::Groups(error) => warn!(error, "memberships could not be changed; trying again"),
            Line::Entry { key, from, to, cause } => {
                let role = |entry: &Option<VipEntry>| entry.map_or("none", |entry| entry.role.name());
                let mac = to.map(|entry| MacAddr(entry.mac)).filter(|mac| !mac.is_zero());
                if self.entries.admits((role(from), role(to)), now) {
                    info!(
                        vip = %key.addr,
                        interface = %agent.view().name_of(key.ifindex),
                        vlan = agent.view().vlan_of(key.ifindex),
                        from = role(from),
                        to = role(to),
                        mac = mac.map(|mac| mac.to_string()),
                        cause = %why_changed(*cause, key.addr, agent),
                        "a VIP's entry has changed"
                    );
                }
            }
            Line::Stale(changes) => stale(changes, agent),
            Line::Silences { begun, over, gone } => silences(begun, over, gone),
            Line::Conflict(line) => {
                // A note says what is named.
                let is_named = matches!(**line, conflict::Line::Named { .. });
                if !is_named && self.conflicts.admits(message(line), now) {
                    conflict(line, agent.view());
                }
                if line.is_shown() {
                    metrics.conflicts.on_line(line, agent.segment().conflicts());
                }
            }
            Line::Segment(note) => segment(note, agent, now),
            Line::TakesBack(vips) => {
                for (vip, mac) in vips {
                    warn!(%vip, %mac, "no peer answers for the yielded VIP; this node takes it back");
                }
            }
            Line::Proof { segment, from, to, received } => {
                proof(&agent.view().name_of(*segment), from.name(), *to, received);
            }
            Line::Egress { segment, begun, over, host } => {
                egress(&agent.view().name_of(*segment), begun, over, *host);
            }
            Line::Unreached(found) => found.iter().for_each(unreached),
            Line::Twin { segment, from: _, to } => twin(&agent.view().name_of(*segment), *to),
            Line::HeardAgain(segment) => {
                let interface = agent.view().name_of(*segment);
                info!(interface, "hosts are heard on the interface; its VIPs are announced and probed");
            }
            Line::Late(Late { by, lapsed }, deadline_ms) => {
                warn!(late_by_ms = millis(*by), deadline_ms, lapsed, "heartbeat is late");
            }
            Line::Probing(left) => info!(left, "addresses are being probed before their VIPs are held"),
            Line::Probed(in_use) => info!(in_use, "addresses have been probed"),
            Line::Proxy(news) => proxy(*news),
            Line::Synced => info!("the cluster has been read"),
            Line::Notice(notice, not_logged) => self.notice(notice, *not_logged, now),
            Line::Refused(refusals::News::Refused(what, message)) => {
                error!(%what, %message, "the API server refuses the request; trying again");
            }
            Line::Refused(refusals::News::Over(what)) => {
                info!(%what, "the API server accepts the request again");
            }
            Line::Refused(refusals::News::More) => {
                error!("the API server refuses more requests than are logged one by one; trying again");
            }
            Line::Shown(vip, aspect) => {
                info!(%vip, about = aspect.name(), "the claim is up to date again");
            }
            Line::NotShown(vip, aspect, problem) => {
                warn!(%vip, about = aspect.name(), %problem, "the claim is not up to date; trying again");
            }
        }
    }

    /// Writes the line about a notice of the engine.
    fn notice(&mut self, notice: &Notice, not_logged: Option<u64>, now: Monotonic) {
        match notice {
            Notice::Holds { vip, services: _, from, cause } => {
                if self.gains.admits(from.clone(), now) {
                    let from = from.as_ref().map(NodeName::as_str);
                    info!(%vip, from, cause, "this node holds the VIP");
                } else {
                    debug!(%vip, cause, "this node holds the VIP");
                }
            }
            Notice::NoHolder { vip, services: _, why } => {
                if self.trouble.admits(Trouble::Is(NO_HOLDER), now) {
                    warn!(%vip, why, "{NO_HOLDER}");
                }
            }
            Notice::CannotMove { vip, services: _, to, why } => {
                warn!(%vip, %to, why, "the VIP cannot be moved");
            }
            Notice::Repaired { what, fault } => {
                warn!(what, %fault, not_logged, "the claim or Lease is written again");
            }
            Notice::WentBack => {
                warn!("the API server's store went back to an older state; everything is read anew");
            }
            Notice::SessionEnded { session } => {
                warn!(
                    %session,
                    "other nodes have expired this node's session: it was unresponsive, or its Lease was not renewed"
                );
            }
            Notice::WireSlow { moves, lasts } => {
                warn!(
                    moves,
                    lasts_seconds = lasts.as_secs(),
                    "VIPs left this node by false positives of the failure detector; only its Lease counts for a while"
                );
            }
            Notice::FalseEnd { session, mute_for } => {
                warn!(
                    %session,
                    "a peer sent an expiry notice, and this node's Lease shows that its session lives: the \
                     frame is forged, or the peer is broken"
                );
                if let Some(lasts) = mute_for {
                    warn!(
                        lasts_seconds = lasts.as_secs(),
                        "this node takes no part in the failure detector for a while; only its Lease counts"
                    );
                }
            }
            Notice::WireContact { interface, is_one_way: true } => {
                warn!(%interface, "the interface has a one-way link to peers that live, and counts as without carrier");
            }
            Notice::WireContact { interface, is_one_way: false } => {
                info!(%interface, "the carrier of the interface counts again");
            }
            Notice::NotAlone { session } => {
                error!(%session, "another agent runs under this node's name");
            }
        }
    }
}

/// Returns the cause of a change. In a cluster it names the Services.
fn why_changed(cause: Cause, vip: IpAddr, agent: &Agent) -> String {
    let Some(cluster) = agent.cluster() else { return cause.to_string() };
    let services = cluster.engine().services_of(vip);
    match (cause, services) {
        (Cause::Configured, [first, more @ ..]) => {
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            format!("wanted by {first}{more}")
        }
        (Cause::Configured, []) => "a node holds it, or may".to_owned(),
        (Cause::NotConfigured, []) => "no Service wants it".to_owned(),
        (Cause::NotConfigured, _) => "it is elsewhere, or its interface is gone".to_owned(),
        (Cause::MacChanged | Cause::Yielded | Cause::Reclaimed | Cause::Repaired, _) => cause.to_string(),
    }
}

/// Logs the state of the pins at the start.
pub(super) fn opening(opening: &Opening, pin_dir: &Path) {
    let pin_dir = pin_dir.display();
    match opening {
        Opening::Fresh => info!(%pin_dir, "the data plane is created"),
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

/// Logs the programs of other pin directories.
pub(super) fn others(found: &io::Result<Vec<OtherPins>>, view: &NetView) {
    match found {
        Err(error) => debug!(%error, "other pin directories cannot be searched for"),
        Ok(others) => {
            for OtherPins { dir, agent, programs } in others {
                let interfaces: Vec<_> = programs.iter().map(|(ifindex, _)| view.name_of(*ifindex)).collect();
                let (pin_dir, interfaces) = (dir.display(), interfaces.join(", "));
                match agent {
                    Running::Runs(pid) => warn!(
                        %pin_dir, interfaces, pid, "another Vipward agent runs on an interface of this one: stop one"
                    ),
                    Running::None => warn!(
                        %pin_dir,
                        interfaces,
                        "a program of another pin directory, without an agent, may answer for VIPs here: vipward \
                         unload --pin-dir"
                    ),
                }
            }
        }
    }
}

/// Logs failures of writes that have begun or are over.
fn stale(changes: &Changes, agent: &Agent) {
    let Changes { begun, over } = changes;
    let (each, more) = if begun.len() > MOST_LINES { begun.split_at(1) } else { (&begun[..], [].as_slice()) };
    for vip in each {
        let Some(Failure { left: _, interface, error }) = agent.stale().failure(*vip) else { continue };
        let interface = interface.as_deref();
        error!(%vip, interface, error, "failed to change the VIP's entry; trying again");
    }
    if !more.is_empty() {
        error!(vips = more.len(), "failed to change the entries of more VIPs; trying again");
    }
    if over.len() > MOST_LINES {
        info!(vips = over.len(), "the entries of VIPs are changed after all");
        return;
    }
    for vip in over {
        info!(%vip, "the VIP's entry is changed after all");
    }
}

fn silences(begun: &[(IpAddr, Option<String>)], over: &[IpAddr], gone: &[IpAddr]) {
    if begun.len() > MOST_LINES {
        warn!(vips = begun.len(), "VIPs that this node has are not answered");
    } else {
        for (vip, why) in begun {
            warn!(%vip, why, "this node has the VIP and does not answer");
        }
    }
    if over.len() > MOST_LINES {
        info!(vips = over.len(), "VIPs are answered again");
    } else {
        for vip in over {
            info!(%vip, "the VIP is answered again");
        }
    }
    if gone.len() > MOST_LINES {
        info!(vips = gone.len(), "VIPs that were not answered are not this node's any more");
    } else {
        for vip in gone {
            info!(%vip, "the VIP that was not answered is not this node's any more");
        }
    }
}

fn segment(note: &Note, agent: &Agent, now: Monotonic) {
    match *note {
        Note::FailedOver { ifindex, vips } => {
            let interface = agent.view().name_of(ifindex);
            info!(interface, vips, "the interface has failed over; its VIPs are announced");
        }
        Note::AsksAboutYield(vip) => {
            info!(%vip, "the VIP was yielded; probing whether a peer answers for it");
        }
        Note::Unheard { ifindex, until } => {
            let interface = agent.view().name_of(ifindex);
            let at_most_ms = millis(until.saturating_since(now));
            warn!(
                interface,
                at_most_ms,
                "no other host was heard since the link came up, so no answer to a probe proves nothing; new VIPs wait"
            );
        }
        Note::Yields(Yield { key, to, own, other }) => {
            let (own_ms, other_ms) = (own.0, other.0);
            warn!(
                vip = %key.addr,
                interface = %agent.view().name_of(key.ifindex),
                mac = %to,
                own_ms,
                other_ms,
                "a peer has held the VIP for longer, and this node yields it"
            );
        }
        Note::InUse { vip, mac, conflicts: _, again: _, is_late: true } => {
            warn!(%vip, %mac, "a host answered late: its address was in use, and the VIP is given back");
        }
        Note::InUse { vip, mac, conflicts, again, is_late: false } => {
            let again_ms = millis(again.saturating_since(now));
            debug!(%vip, %mac, conflicts, again_ms, "the address is in use");
        }
        Note::Answerer { vip, mac, answerer: Answerer::Proxy, takes: true } => {
            let vendor = vipward_vendors::of(mac);
            warn!(%vip, %mac, %vendor, "the VIP is taken: {} (probe.proxied)", Answerer::Proxy.says());
        }
        Note::Answerer { vip, mac, answerer, takes: _ } => {
            let remedy = answerer.remedy();
            warn!(%vip, %mac, sort = answerer.name(), remedy, "the VIP waits: {}", answerer.says());
        }
    }
}

fn proxy(news: News) {
    match news {
        News::Waits => warn!(
            "the service proxy's health endpoint is not good yet; this node takes no VIP (--proxy-health)"
        ),
        News::Ungated => {
            warn!("the service proxy's health endpoint was not good in time; VIPs are taken without it");
        }
        News::TooMany => warn!("too many healthCheckNodePorts for a Lease; EndpointSlices alone decide"),
        News::Fits => info!("the healthCheckNodePorts fit into a Lease again"),
    }
}

/// Logs the VIPs from which the network drops the frames, and those from which it no longer does.
fn egress(interface: &str, begun: &[IpAddr], over: &[IpAddr], host: Option<IpAddr>) {
    let host = host.map(|host| host.to_string());
    if let Some(first) = begun.first() {
        error!(
            interface,
            vips = begun.len(),
            %first,
            host,
            "unheard: a host answers this host's own address and none of these VIPs; the network drops what this \
             host sends from them"
        );
    }
    if let Some(first) = over.first() {
        info!(interface, vips = over.len(), %first, host, "the network takes what this host sends from the VIPs");
    }
}

/// Logs a fault of a held VIP that another node found, or its end.
fn unreached((vip, fault): &(IpAddr, Option<VipFault>)) {
    if let Some(fault) = fault {
        error!(%vip, fault = fault.name(), "another node asks for the VIP in vain");
    } else {
        info!(%vip, "another node asks for the VIP and gets answers again");
    }
}

/// Logs a finding why frames with this host's own MAC come in.
fn twin(interface: &str, to: Twin) {
    match own_frames::in_words(to) {
        Some(words) => error!(interface, "{words}"),
        None => {
            info!(interface, "no frames with this host's own MAC come from the network any more");
        }
    }
}

/// Logs a finding about what the program sees of an interface.
fn proof(interface: &str, from: &'static str, to: Proof, received: &Received) {
    let counted = received.counted;
    match to {
        Proof::Proven => info!(interface, from, counted, "the program sees the interface's frames"),
        Proof::Unproven => info!(
            interface,
            from,
            "no frame of ARP or neighbour discovery was received: whether the program sees the interface's \
             frames is unproven"
        ),
        Proof::Blind => error!(
            interface,
            from,
            received = received.frames,
            "bypassed: the kernel receives frames on the interface that the program does not see; no VIP is answered"
        ),
        Proof::Bypassed => error!(
            interface,
            from,
            counted,
            vip = received.passed.map(|vip| vip.to_string()),
            "bypassed: a request for a VIP got past the program to the kernel"
        ),
    }
}

/// Returns the message of the line about a conflict.
fn message(line: &conflict::Line) -> Trouble {
    match line {
        conflict::Line::Began { sight, .. } => Trouble::Is(beginning(sight)),
        conflict::Line::NewOffender { .. } => Trouble::Is(ANOTHER),
        conflict::Line::GoesOn { .. } | conflict::Line::Named { .. } => Trouble::Is(GOES_ON),
        conflict::Line::Doubled { conflict } if conflict.doubled => Trouble::Is(DOUBLED),
        conflict::Line::Doubled { .. } => Trouble::Over(ALONE),
        conflict::Line::Ended { .. } => Trouble::Over(OVER),
        conflict::Line::TooMany { .. } => Trouble::Is(TOO_MANY),
    }
}

fn conflict(line: &conflict::Line, view: &NetView) {
    match line {
        conflict::Line::Began { conflict, sight } => {
            let Sight { mac, source, oper, times: claims, at, .. } = *sight;
            let offender = Offender { mac, source, oper, first: at, last: at, claims, answerer: None };
            warn_of(conflict, &offender, view, beginning(sight));
        }
        conflict::Line::NewOffender { conflict, mac } => {
            for offender in conflict.offenders.iter().filter(|offender| offender.mac == *mac) {
                warn_of(conflict, offender, view, ANOTHER);
            }
        }
        conflict::Line::Named { .. } => {}
        conflict::Line::GoesOn { conflict, times } => warn!(
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
        conflict::Line::Ended { conflict, why } => info!(
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
        conflict::Line::Doubled { conflict } if conflict.doubled => {
            for offender in &conflict.offenders {
                warn_of(conflict, offender, view, DOUBLED);
            }
        }
        conflict::Line::Doubled { conflict } => info!(
            kind = conflict.what.kind(),
            vip = %conflict.key.addr,
            interface = %view.name_of(conflict.key.ifindex),
            vlan = view.vlan_of(conflict.key.ifindex),
            macs = macs(conflict),
            "{ALONE}"
        ),
        conflict::Line::TooMany { times } => warn!(times, "{TOO_MANY}"),
    }
}

/// Returns the log message for the beginning of a conflict.
fn beginning(sight: &Sight) -> &'static str {
    match (sight.what, sight.right) {
        (What::Held | What::Guarded, _) => {
            "conflict: an unknown host claims the VIP, and the claim is dropped"
        }
        (What::InUse, _) => {
            "conflict: the address is in use by an unknown host; the VIP waits until it is free"
        }
        (What::Sighted, _) => "sighted: an unknown host claims a VIP whose holder is not known",
        (What::Contested, _) if sight.source != sight.mac => {
            "contested: a host claims, in a peer's name, a VIP that this node holds, and the claim is dropped"
        }
        (What::Contested, _) => {
            "contested: a peer claims a VIP that this node holds, and the claim is dropped"
        }
        (What::Moved, Right::NoClaims) => "moved: a peer announced the VIP",
        (What::Moved, _) => "moved: a peer announced the VIP, and the VIP's claim does not name that peer",
        (What::Yielded, Right::NoClaims) => {
            "yielded: the VIP went to a peer after this node's lease deadline had passed; SIGHUP takes it back from \
             a peer that answers"
        }
        (What::Yielded, _) => {
            "yielded: the VIP went to a peer after this node's lease deadline had passed, and its claim does \
             not name that peer"
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
        holder = Some(conflict.holder).filter(|mac| !mac.is_zero()).map(|mac| mac.to_string()),
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

#[cfg(test)]
mod tests;
