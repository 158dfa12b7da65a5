//! The sections of an effective configuration, as they are written.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_saphyr::DoubleQuoted;
use vipward_common::{MacAddr, Policy};

use crate::{
    host::heartbeat,
    segment::{
        announce,
        conflict::{self, Defend},
        probing::{self, Proxied, Timing},
    },
};

/// Word for the RFC's own times of probes.
pub(super) const RFC_5227: &str = "rfc5227";

fn duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Returns a MAC in quotes. Some readers of YAML take one without them for a number.
fn quoted(mac: MacAddr) -> DoubleQuoted<String> {
    DoubleQuoted(mac.to_string())
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn mac<S: Serializer>(mac: &Option<MacAddr>, serializer: S) -> Result<S::Ok, S::Error> {
    mac.map(quoted).serialize(serializer)
}

pub(super) fn macs<S: Serializer>(macs: &[MacAddr], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(macs.iter().copied().map(quoted))
}

pub(super) fn fence<S: Serializer>(fence: &heartbeat::Settings, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fence {
        duration: String,
        heartbeat: String,
        policy: &'static str,
        hold_for: String,
    }
    let policy = match fence.policy {
        Policy::Stop => "stop",
        Policy::Hold => "hold",
    };
    let heartbeat::Settings { duration: length, heartbeat, policy: _, hold_for } = *fence;
    let (length, heartbeat, hold_for) = (duration(length), duration(heartbeat), duration(hold_for));
    Fence { duration: length, heartbeat, policy, hold_for }.serialize(serializer)
}

pub(super) fn announce<S: Serializer>(
    settings: &announce::Settings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Announce {
        refresh: String,
        rate: u32,
    }
    Announce { refresh: duration(settings.refresh), rate: settings.rate }.serialize(serializer)
}

pub(super) fn conflicts<S: Serializer>(
    settings: &conflict::Settings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Conflicts {
        defend: &'static str,
        quiet: String,
    }
    let defend = match settings.defend {
        Defend::Match => "match",
        Defend::Always => "always",
        Defend::Once => "once",
        Defend::Never => "never",
    };
    Conflicts { defend, quiet: duration(settings.quiet) }.serialize(serializer)
}

pub(super) fn probe<S: Serializer>(settings: &probing::Settings, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Probe {
        count: u32,
        interval: String,
        repeat: String,
        rate: u32,
        proxied: &'static str,
    }
    let probing::Settings { count, timing, repeat, rate, proxied } = *settings;
    let interval = match timing {
        Timing::Every(interval) => duration(interval),
        Timing::Rfc5227 => RFC_5227.to_owned(),
    };
    let proxied = match proxied {
        Proxied::Take => "take",
        Proxied::Wait => "wait",
    };
    let repeat = duration(repeat.unwrap_or_default());
    Probe { count, interval, repeat, rate, proxied }.serialize(serializer)
}
