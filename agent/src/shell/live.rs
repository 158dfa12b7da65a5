//! `vipward watch`: snapshots of the pins, again and again, on a screen or as lines.
//!
//! Every snapshot opens the pins anew, so that maps that an agent has replaced meanwhile are followed.

mod draw;
mod plain;
mod screen;

#[cfg(test)]
pub(super) use self::plain::Line;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io, time::Duration};

use thiserror::Error;
use vipward_common::MacAddr;

pub use self::{plain::plain, screen::screen};
use super::{
    bpf::Pins,
    clock,
    status::{self, Status, StatusError},
};
use crate::core::{
    time::Monotonic,
    watch::{Counts, Fence, Interface, Offender, OffenderId, Snapshot, Vip, VipId},
};

/// Why watching ended.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The pins cannot be read.
    #[error("there is nothing to watch")]
    Status(#[from] StatusError),
    /// There is no terminal to draw on.
    #[error("standard output is no terminal: use --plain for lines")]
    NoTerminal,
    /// The terminal does not do as it is told.
    #[error("failed to {what} the terminal")]
    Terminal {
        /// What was tried.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be listened to.
    #[error("failed to listen to signals")]
    Signals(#[source] io::Error),
    /// Lines cannot be written.
    #[error("failed to print")]
    Print(#[source] io::Error),
}

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How watching goes.
#[derive(Clone, Debug)]
pub struct Watching {
    /// The pins to read.
    pub pins: Pins,
    /// The time between two snapshots.
    pub interval: Duration,
}

impl Watching {
    /// Reads all that there is.
    async fn snapshot(&self) -> Result<Snapshot, StatusError> {
        let status = status::read(&self.pins).await?;
        let at = Monotonic::from_nanos(clock::coarse_ns()?);
        Ok(snapshot(status, at))
    }
}

fn snapshot(status: Status, at: Monotonic) -> Snapshot {
    let names: BTreeMap<u32, String> =
        status.interfaces.iter().filter_map(|it| Some((it.ifindex, it.name.clone()?))).collect();
    let name = |ifindex: u32| names.get(&ifindex).cloned().unwrap_or_else(|| format!("#{ifindex}"));
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let interface = |it: &status::InterfaceStatus| {
        let interface = Interface {
            attached: it.attached,
            mode: it.mode.to_string(),
            carrier: it.carrier,
            mac: it.mac.map(|mac| mac.to_string()),
        };
        (name(it.ifindex), interface)
    };
    Snapshot {
        at,
        fence: Fence {
            state: status.fence.state,
            policy: status.fence.policy,
            left: seconds(status.fence.left_seconds),
            hold_left: seconds(status.fence.hold_left_seconds),
        },
        interfaces: status.interfaces.iter().map(interface).collect(),
        vips: status.vips.into_iter().map(vip).collect(),
        frames: status.counters,
        offenders: status
            .offenders
            .into_iter()
            .map(|status| {
                let interface = name(status.record.0.ifindex);
                offender(status, interface)
            })
            .collect(),
        events_lost: status.events_lost,
    }
}

fn vip(status: status::VipStatus) -> (VipId, Vip) {
    let counts = match (status.answered, status.conflicts, status.suppressed) {
        (Some(answered), Some(conflicts), Some(suppressed)) => {
            Some(Counts { answered, conflicts, suppressed })
        }
        _ => None,
    };
    let vip = Vip {
        role: status.role.name(),
        mac: status.mac.map(|mac| mac.to_string()),
        yielded: status.yielded,
        silent_because: status.silent_because,
        counts,
    };
    (VipId { address: status.address, interface: status.interface }, vip)
}

fn offender(status: status::OffenderStatus, interface: String) -> (OffenderId, Offender) {
    let (key, claimed) = status.record;
    let id = OffenderId { vip: VipId { address: key.addr.into(), interface }, mac: MacAddr(key.mac) };
    let offender = Offender {
        first: Monotonic::from_nanos(claimed.first_ns),
        last: Monotonic::from_nanos(claimed.last_ns),
        claims: claimed.claims,
        kind: status.kind,
        source: MacAddr(claimed.source),
        vendor: status.vendor,
    };
    (id, offender)
}
