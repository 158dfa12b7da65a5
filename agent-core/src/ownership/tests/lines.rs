//! Commands as lines of text.

use std::{net::IpAddr, time::Duration};

use vipward_common::MacAddr;

use super::records::{VIP, mac};
use crate::{
    base::time::Monotonic,
    ownership::{ClaimWrite, Command, Entry, Expected, LeaseWrite, Notice},
    records::{ClaimState, Holder, NodeName, Session},
};

/// Shows commands as lines.
#[derive(Default)]
pub(super) struct Lines {
    /// Sessions that the engine has invented, the oldest first.
    made_up: Vec<Session>,
}

impl Lines {
    /// Returns the line of a command that is given now. Returns
    /// none for a command that is not shown.
    pub(super) fn line(&mut self, command: &Command, now: Monotonic) -> Option<String> {
        let line = match command {
            Command::SetPeers(_) | Command::SetWire(_) | Command::SetHeeding(_) | Command::AvoidServer(_) => {
                return None;
            }
            Command::NotifyFormer { vip, session, mac } => {
                format!("tell {} of the end of {}{}", place(*mac), self.session_name(*session), which(*vip))
            }
            Command::SetUnreached(vips) => {
                let found: Vec<_> =
                    vips.iter().map(|(vip, fault)| format!("{vip} {}", fault.word())).collect();
                format!("unreached: {}", found.join(" "))
            }
            Command::SetSuccessor { vip, receives } => format!("receives for {vip}: {receives}"),
            Command::SetDeadline(new_deadline) => {
                format!("lease deadline for {}", seconds(new_deadline.deadline.saturating_since(now)))
            }
            Command::SetEntry { vip, entry, home } => {
                let home = if home.is_some() { "" } else { " on no interface" };
                entry_line(*entry, now) + home + &which(*vip)
            }
            Command::Probe { vip, manner } => {
                let often = if manner.often { "" } else { " rarely" };
                format!("probe{}{often}{}", which(*vip), if manner.patient { " patiently" } else { "" })
            }
            Command::StopProbing { vip } => format!("stop probing{}", which(*vip)),
            Command::Announce { vip } => format!("announce{}", which(*vip)),
            Command::WriteLease(write) => self.lease_line(write),
            Command::ReadLease(node) => format!("read lease of {node}"),
            Command::WriteClaim(write) => self.claim_line(write),
            Command::DeleteClaim { vip, expected: _ } => format!("delete claim{}", which(*vip)),
            Command::ReadClaim(vip) => format!("read claim{}", which(*vip)),
            Command::ListAnew => "list anew".to_owned(),
            Command::Notify(notice) => self.notice_line(notice),
            Command::Stopped => "stopped".to_owned(),
        };
        Some(line)
    }

    /// Returns the name of a session. `a1` is the first session of node a. `new`, `new2`
    /// and so on are sessions that the engine has invented.
    fn session_name(&mut self, session: Session) -> String {
        if session.number() < 0x1_0000 {
            let node = char::from(u8::try_from(session.number() >> 8).unwrap_or(b'?'));
            return format!("{node}{}", session.number() & 0xff);
        }
        if !self.made_up.contains(&session) {
            self.made_up.push(session);
        }
        match self.made_up.iter().position(|known| *known == session) {
            Some(0) | None => "new".to_owned(),
            Some(later) => format!("new{}", later + 1),
        }
    }

    fn lease_line(&mut self, write: &LeaseWrite) -> String {
        let verb = verb(&write.expected);
        let session = write.session.map_or_else(|| "no session".to_owned(), |one| self.session_name(one));
        let ended: Vec<String> = write.ended.iter().map(|one| self.session_name(*one)).collect();
        let ended = if ended.is_empty() { "none".to_owned() } else { ended.join(" ") };
        format!("{verb} lease of {}: {session}, ended {ended}, {}", write.node, seconds(write.duration))
    }

    fn holder_name(&mut self, holder: &Holder) -> String {
        let name = self.session_name(holder.session);
        if holder.mac == mac(holder.node.as_str()) {
            name
        } else {
            format!("{name} at {}", place(holder.mac))
        }
    }

    fn claim_line(&mut self, write: &ClaimWrite) -> String {
        let state = match &write.state {
            ClaimState::Held(holder) => format!("held by {}", self.holder_name(holder)),
            ClaimState::Offered { to, from: (_, from) } => {
                format!("offered to {} by {}", self.holder_name(to), self.session_name(*from))
            }
            ClaimState::Released => "released".to_owned(),
            ClaimState::Blank => "blank".to_owned(),
        };
        format!("{} claim: {state}, epoch {}{}", verb(&write.expected), write.epoch, which(write.vip))
    }

    fn notice_line(&mut self, notice: &Notice) -> String {
        match notice {
            Notice::Holds { vip, services: _, from, cause: _ } => {
                let from = from.as_ref().map_or("no node", NodeName::as_str);
                format!("tell: held, from {from}{}", which(*vip))
            }
            Notice::NoHolder { vip, services: _, why } => format!("tell: no holder, {why}{}", which(*vip)),
            Notice::CannotMove { vip, services: _, to, why } => {
                format!("tell: cannot move to {to}, {why}{}", which(*vip))
            }
            Notice::Repaired { what, fault } => format!("tell: repaired {what}, {fault}"),
            Notice::WentBack => "tell: the store went back".to_owned(),
            Notice::SessionEnded { session } => format!("tell: {} has ended", self.session_name(*session)),
            Notice::WireContact { interface, is_one_way } => {
                format!("tell: {interface} one-way: {is_one_way}")
            }
            Notice::WireSlow { moves, lasts } => format!("tell: slow after {moves}, for {}", seconds(*lasts)),
            Notice::FalseEnd { session, mute_for } => {
                let lasts =
                    mute_for.map(|lasts| format!(", mute for {}", seconds(lasts))).unwrap_or_default();
                format!("tell: {} has not ended{lasts}", self.session_name(*session))
            }
            Notice::NotAlone { session } => format!("tell: not alone, {}", self.session_name(*session)),
        }
    }
}

fn entry_line(entry: Option<Entry>, now: Monotonic) -> String {
    match entry {
        None => "no entry".to_owned(),
        Some(Entry::Held) => "entry held".to_owned(),
        Some(Entry::Foreign { mac }) => format!("entry foreign {}", place(mac)),
        Some(Entry::Handover { mac, until }) => {
            format!("entry handover {} for {}", place(mac), seconds(until.saturating_since(now)))
        }
    }
}

fn verb(expected: &Expected) -> &'static str {
    match expected {
        Expected::Absent => "create",
        Expected::At(_) => "write",
    }
}

fn which(vip: IpAddr) -> String {
    if vip == VIP { String::new() } else { format!(" ({vip})") }
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// Returns the node of a MAC.
fn place(mac: MacAddr) -> String {
    match mac {
        MacAddr::ZERO => "?".to_owned(),
        MacAddr([2, 0, 0, 0, 0, node]) => char::from(node).to_string(),
        other => other.to_string(),
    }
}
