//! Effects as lines, in which a VIP is its last byte, and a MAC too.

use std::net::IpAddr;

use vipward_common::{MacAddr, VipEntry, VipFault};

use super::{effect::Line, segment::Note, *};
use crate::{
    base::samples::last_octet,
    host::plan::Action,
    ownership::{ClaimWrite, LeaseWrite},
    records::ClaimState,
    segment::{announce::Command as Announcement, conflict, groups},
};

pub(super) fn named(vip: IpAddr) -> String {
    last_octet(vip).to_string()
}

fn all<'a>(vips: impl IntoIterator<Item = &'a IpAddr>) -> String {
    vips.into_iter().map(|vip| named(*vip)).collect::<Vec<_>>().join(" ")
}

pub(super) fn short(mac: MacAddr) -> String {
    if mac.is_zero() { "?".to_owned() } else { format!("{:02x}", mac.0[5]) }
}

pub(super) fn entry(entry: &VipEntry) -> String {
    format!("{} {}", entry.role.name(), short(MacAddr(entry.mac)))
}

fn action(action: &Action) -> String {
    match action {
        Action::PutOwnMac { ifindex, mac } => format!("own {ifindex} {}", short(*mac)),
        Action::RemoveOwnMac { ifindex } => format!("no own {ifindex}"),
        Action::PutPeer { mac, .. } => format!("peer {}", short(*mac)),
        Action::RemovePeer { mac, .. } => format!("no peer {}", short(*mac)),
        Action::PutEntry { key, entry: it, .. } => format!("{} {}", named(key.addr), entry(it)),
        Action::RemoveEntry { key, .. } => format!("no {}", named(key.addr)),
        Action::AddBind { interface, vip } => format!("bind {} {interface}", named(*vip)),
        Action::RemoveBind { interface, vip } => format!("unbind {} {interface}", named(*vip)),
    }
}

/// Returns the line of an effect. That an examination reads is left out, and that no problem stands.
pub(super) fn of(effect: &Effect, view: &NetView) -> Option<String> {
    let keys = |keys: &[VipKey]| keys.iter().map(|key| named(key.addr)).collect::<Vec<_>>().join(" ");
    Some(match effect {
        Effect::Read(reading) => match reading {
            Reading::Network => "observe".to_owned(),
            Reading::Yields => "read yields".to_owned(),
            Reading::Maps => "read maps".to_owned(),
            Reading::Entries(all) => format!("read {}", keys(all)),
            Reading::Records(_) => "read records".to_owned(),
            Reading::Macs => "read macs".to_owned(),
            Reading::Held => "read held".to_owned(),
            Reading::Groups => "read groups".to_owned(),
            Reading::LeaseDeadline | Reading::Seen(_) => return None,
        },
        Effect::Prepare { attach, .. } => format!("prepare {attach:?}"),
        Effect::Write(actions) => {
            format!("write {}", actions.iter().map(action).collect::<Vec<_>>().join(", "))
        }
        Effect::ChangeGroup(groups::Command::Join(it)) => format!("join {}", it.group),
        Effect::ChangeGroup(groups::Command::Leave(it)) => format!("leave {}", it.group),
        Effect::SetDeadline(_) => "lease_deadline".to_owned(),
        Effect::PutProof(ifindex, proof) => format!("put proof {ifindex} {}", world::proof(*proof)),
        Effect::PutFault(key, fault) => {
            format!("put fault {} {}", named(key.addr), fault.map_or("none", VipFault::word))
        }
        Effect::AskAs { host, vips, .. } => format!("ask {host} as {}", all(vips)),
        Effect::PutTwin(ifindex, twin) => format!("put twin {ifindex} {twin:?}"),
        Effect::AttachAgain(ifindex) => format!("attach again {ifindex}"),
        Effect::Announce { command: Announcement::Send { key, mac, round }, is_taken_back } => {
            let back = if *is_taken_back { ", taken back" } else { "" };
            format!("announce {} {} {round:?}{back}", named(key.addr), short(*mac))
        }
        Effect::Announce { command: Announcement::Repeat { key, former, .. }, .. } => {
            format!("repeat {} to {}", named(key.addr), short(*former))
        }
        Effect::Probe(key) => format!("probe {}", named(key.addr)),
        Effect::AskHost { key, mac } => format!("ask host {} at {}", named(key.addr), short(*mac)),
        Effect::TellApart { key, mac } => format!("tell apart {} at {}", named(key.addr), short(*mac)),
        Effect::ShowPort(key) => format!("port {}", named(key.addr)),
        Effect::ProbeHeld { key, .. } => format!("ask held {}", named(key.addr)),
        // Each round has one; a test of two agents delivers them.
        Effect::State { .. } => return None,
        Effect::Count => "count".to_owned(),
        Effect::Listen { segment, round, .. } => format!("listen {segment} round {round}"),
        Effect::Cluster(effect) => cluster(effect),
        Effect::ReadFile => "read file".to_owned(),
        Effect::Problems(problems) if problems.is_empty() => return None,
        Effect::Problems(problems) => format!("problems {problems:?}"),
        Effect::Log(line) => format!("log {}", log(line, view)),
        Effect::Withdraw => "withdraw".to_owned(),
        Effect::Stopped(reason) => format!("stopped {reason:?}"),
        Effect::NotAlone(_) => "not alone".to_owned(),
    })
}

fn cluster(effect: &ClusterEffect) -> String {
    match effect {
        ClusterEffect::Ask(request) => asked(request),
        ClusterEffect::NotifyFormer { mac, .. } => format!("tell former {}", short(*mac)),
        ClusterEffect::Post(message) => format!("post {:?}", message.reason),
        ClusterEffect::SetHeeding(heeds) => format!("heeding {heeds}"),
        ClusterEffect::ShowHolder(vip, held) => {
            format!("holder {} {}", named(*vip), if held.is_some() { "here" } else { "elsewhere" })
        }
        ClusterEffect::AskProxy(target) => format!("ask proxy {target:?}"),
        ClusterEffect::ListAnew => "list anew".to_owned(),
        ClusterEffect::AvoidServer(node) => format!("avoid {node}"),
        ClusterEffect::ListSlices(_) => "list slices".to_owned(),
        ClusterEffect::Watch(_) => "watch".to_owned(),
        ClusterEffect::ForgetHolder(_, node) => format!("forget holder {node}"),
        ClusterEffect::Problem(service, _) => format!("problem of {service}"),
        ClusterEffect::ProblemOver(service, _) => format!("problem over of {service}"),
        ClusterEffect::LeaveStatus(service) => format!("leave status of {service}"),
        ClusterEffect::Moved(_) => "moved".to_owned(),
        ClusterEffect::Took(_) => "took".to_owned(),
    }
}

fn asked(request: &Request) -> String {
    match request {
        Request::WriteLease(LeaseWrite { node, session, ended, leaving, .. }) => {
            let session = if session.is_some() { "session" } else { "no session" };
            let ended = if ended.is_empty() { "" } else { ", ended" };
            let leaving = if *leaving { ", leaving" } else { "" };
            format!("write lease {node}: {session}{ended}{leaving}")
        }
        Request::ReadLease(node) => format!("read lease {node}"),
        Request::WriteClaim(ClaimWrite { vip, epoch, state, .. }) => {
            let state = match state {
                ClaimState::Held(holder) => format!("held by {}", holder.node),
                ClaimState::Offered { to, .. } => format!("offered to {}", to.node),
                ClaimState::Released => "released".to_owned(),
                ClaimState::Blank => "blank".to_owned(),
            };
            format!("claim {}: {state}, {}", named(*vip), epoch.0)
        }
        Request::DeleteClaim(vip, _) => format!("delete claim {}", named(*vip)),
        Request::ReadClaim(vip) => format!("read claim {}", named(*vip)),
        Request::Show(vip, finding) => {
            format!("show {} {:?}", named(*vip), crate::reports::claim_findings::Aspect::of(finding))
        }
        Request::WriteStatus { addresses, .. } => {
            format!("status {}", addresses.as_ref().map_or("none".to_owned(), all))
        }
    }
}

fn log(line: &Line, view: &NetView) -> String {
    match line {
        Line::Configured => "configured".to_owned(),
        Line::Reclaims => "reclaims".to_owned(),
        Line::Unsettled { vips, within } => format!("unsettled, {vips} VIPs, {within:?}"),
        Line::Unobserved(_) => "unobserved".to_owned(),
        Line::Overrun => "overrun".to_owned(),
        Line::Removed { interface, own, instead } => {
            format!("{interface} lost {} {}, has {instead:?}", own.mode, own.id)
        }
        Line::Unread(why) => format!("unread {why}"),
        Line::PeersUnwritten(_) => "peers unwritten".to_owned(),
        Line::Groups(_) => "groups".to_owned(),
        Line::Entry { key, from, to, .. } => {
            let text = |it: &Option<VipEntry>| it.as_ref().map_or("none".to_owned(), entry);
            format!("{} {} > {}", named(key.addr), text(from), text(to))
        }
        Line::Stale(changes) => format!("stale [{}], over [{}]", all(&changes.begun), all(&changes.over)),
        Line::Silences { begun, over, gone } => {
            let begun: Vec<_> = begun.iter().map(|(vip, _)| *vip).collect();
            format!("silent [{}], over [{}]", all(&begun), all(&[&over[..], gone].concat()))
        }
        Line::Conflict(line) => match &**line {
            conflict::Line::Began { conflict, .. } => format!("conflict {:?}", conflict.what),
            conflict::Line::NewOffender { .. } => "another offender".to_owned(),
            conflict::Line::Named { .. } => "offender named".to_owned(),
            conflict::Line::GoesOn { .. } => "conflict goes on".to_owned(),
            conflict::Line::Ended { why, .. } => format!("conflict over {why:?}"),
            conflict::Line::Doubled { conflict } if conflict.doubled => "doubled".to_owned(),
            conflict::Line::Doubled { .. } => "no longer doubled".to_owned(),
            conflict::Line::TooMany { .. } => "too many conflicts".to_owned(),
        },
        Line::Segment(Note::FailedOver { ifindex, vips }) => {
            format!("{} failed over, {vips}", view.name_of(*ifindex))
        }
        Line::Segment(Note::AsksAboutYield(vip)) => format!("asks about {}", named(*vip)),
        Line::Segment(Note::Answerer { vip, answerer, takes, .. }) => {
            format!("{} answers for {}{}", answerer.name(), named(*vip), if *takes { ", takes" } else { "" })
        }
        Line::Segment(Note::Yields(settled)) => {
            format!("yields {} to {}", named(settled.key.addr), short(settled.to))
        }
        Line::Segment(Note::InUse { vip, is_late, .. }) => {
            format!("{} in use{}", named(*vip), if *is_late { ", late" } else { "" })
        }
        Line::Segment(Note::Unheard { ifindex, .. }) => format!("{} unheard", view.name_of(*ifindex)),
        Line::Egress { begun, over, .. } => format!("unheard [{}], over [{}]", all(begun), all(over)),
        Line::Unreached(found) => {
            let all: Vec<_> = found
                .iter()
                .map(|(vip, fault)| {
                    format!("{} {}", last_octet(*vip), fault.map_or("reached", |fault| fault.word()))
                })
                .collect();
            format!("found by others: {}", all.join(", "))
        }
        Line::Twin { from, to, .. } => format!("twin {from:?} > {to:?}"),
        Line::HeardAgain(segment) => format!("{} heard again", view.name_of(*segment)),
        Line::TakesBack(vips) => format!("takes back {}", all(vips.keys())),
        Line::Proof { from, to, .. } => {
            format!("proof {} > {}", world::proof(*from), world::proof(*to))
        }
        Line::Late(..) => "late".to_owned(),
        Line::Probing(left) => format!("probing {left}"),
        Line::Probed(in_use) => format!("probed, {in_use} in use"),
        Line::Proxy(news) => format!("proxy {news:?}"),
        Line::Synced => "synced".to_owned(),
        Line::Notice(notice, _) => {
            let text = format!("{notice:?}");
            format!("notice {}", text.split([' ', '{', '(']).next().unwrap_or_default())
        }
        Line::Refused(news) => {
            let text = format!("{news:?}");
            format!("refused {}", text.split([' ', '(']).next().unwrap_or_default())
        }
        Line::Shown(vip, aspect) => format!("shown {} {aspect:?}", named(*vip)),
        Line::NotShown(vip, aspect, _) => format!("not shown {} {aspect:?}", named(*vip)),
    }
}
