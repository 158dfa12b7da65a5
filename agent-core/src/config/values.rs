//! Validation of the file's values, and their defaults.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::IpAddr,
    ops::RangeInclusive,
    time::Duration,
};

use vipward_common::{MacAddr, Policy};

use super::{
    effective::{Config, OnYield, Shutdown, VipConfig},
    fault::{Fault, FaultKind},
    raw::{At, RawConfig, RawFence, RawVip, Text},
};
use crate::{
    base::{
        address::{self, NeverAVip},
        pattern::{InterfaceName, InterfacePattern},
    },
    host::{attaching::Attach, heartbeat},
};

const FENCE_DURATION: Duration = Duration::from_secs(3);
const HEARTBEAT_LEAST: Duration = Duration::from_millis(250);
const HEARTBEAT_MOST: Duration = Duration::from_secs(1);
const HOLD_FOR: Duration = Duration::from_hours(1);
/// The highest rate in frames a second that a section can set.
pub(super) const RATE_MOST: u32 = 1_000_000;
pub(super) const LONGEST: Duration = Duration::from_hours(30 * 24);
const MILLISECOND: Duration = Duration::from_millis(1);
/// Collector of faults. With it one run reports them all.
pub(super) struct Validator<'a> {
    faults: &'a mut Vec<Fault>,
}

/// Returns the configuration that `raw` describes. Adds its faults to `faults`.
pub(super) fn validate(raw: RawConfig, host: &str, faults: &mut Vec<Fault>) -> Option<Config> {
    let mut validator = Validator { faults };
    let node = validator.node(raw.node.as_ref(), host);
    let interfaces = validator.interfaces(raw.interfaces);
    let vips = validator.vips(&raw.vips);
    let peers = raw.peers.iter().map(|peer| validator.value(peer, mac)).collect::<Vec<_>>();
    let attach =
        validator.word(raw.attach.as_ref(), "attach", "auto, native, tc, generic", |word| match word {
            "auto" => Some(Attach::Auto),
            "native" => Some(Attach::Native),
            "tc" => Some(Attach::Tc),
            "generic" => Some(Attach::Generic),
            _ => None,
        });
    let fence = validator.fence(&raw.fence);
    let announce = validator.announce(&raw.announce);
    let probe = validator.probe(&raw.probe);
    let conflicts = validator.conflicts(&raw.conflicts);
    let yields = validator.word(raw.yields.as_ref(), "yield", "ask, keep", |word| match word {
        "ask" => Some(OnYield::Ask),
        "keep" => Some(OnYield::Keep),
        _ => None,
    });
    let shutdown = validator.word(raw.shutdown.as_ref(), "shutdown", "keep, withdraw", |word| match word {
        "keep" => Some(Shutdown::Keep),
        "withdraw" => Some(Shutdown::Withdraw),
        _ => None,
    });
    Some(Config {
        node: node?,
        interfaces: interfaces?,
        vips: vips?,
        peers: peers.into_iter().collect::<Option<_>>()?,
        attach: attach?.unwrap_or_default(),
        fence: fence?,
        announce: announce?,
        probe: probe?,
        conflicts: conflicts?,
        yields: yields?.unwrap_or_default(),
        shutdown: shutdown?.unwrap_or_default(),
    })
}

impl Validator<'_> {
    pub(super) fn fault<T>(&mut self, text: &At<T>, kind: FaultKind) {
        self.faults.push(Fault { place: text.place, kind });
    }

    fn value<T, E: Into<FaultKind>>(
        &mut self,
        text: &Text,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        parse(text.value.trim()).map_err(|kind| self.fault(text, kind.into())).ok()
    }

    /// Parses an optional value. The outer `None` means a fault, the inner `None` a missing value.
    #[expect(clippy::option_option, reason = "a wrong value differs from a missing one")]
    pub(super) fn optional<T, E: Into<FaultKind>>(
        &mut self,
        text: Option<&Text>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Option<T>> {
        text.map_or(Some(None), |text| self.value(text, parse).map(Some))
    }

    #[expect(clippy::option_option, reason = "a wrong value differs from a missing one")]
    pub(super) fn word<T>(
        &mut self,
        text: Option<&Text>,
        key: &'static str,
        known: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        self.optional(text, |word| {
            parse(word).ok_or_else(|| FaultKind::Word { key, value: word.into(), known })
        })
    }

    fn node(&mut self, text: Option<&Text>, host: &str) -> Option<String> {
        let node = self.optional(text, |node| match node {
            "" => Err(FaultKind::EmptyNode),
            node if node.contains(char::is_control) => Err(FaultKind::NodeName(node.into())),
            node => Ok(node.to_owned()),
        })?;
        Some(node.unwrap_or_else(|| host.to_owned()))
    }

    fn interfaces(&mut self, patterns: Option<At<Vec<Text>>>) -> Option<Vec<InterfacePattern>> {
        let Some(patterns) = patterns else { return Some(Vec::new()) };
        if patterns.value.is_empty() {
            self.fault(&patterns, FaultKind::NoInterfaces);
            return None;
        }
        let patterns: Vec<_> = patterns
            .value
            .iter()
            .map(|pattern| self.value(pattern, str::parse::<InterfacePattern>))
            .collect();
        patterns.into_iter().collect()
    }

    fn vips(&mut self, raw: &At<Option<Vec<RawVip>>>) -> Option<Vec<VipConfig>> {
        let Some(vips) = &raw.value else {
            self.fault(raw, FaultKind::NoVips);
            return None;
        };
        let mut first_lines = BTreeMap::new();
        let mut found = Vec::with_capacity(vips.len());
        for vip in vips {
            found.push(self.vip(vip, &mut first_lines));
        }
        found.into_iter().collect()
    }

    fn vip(&mut self, raw: &RawVip, first_lines: &mut BTreeMap<IpAddr, u32>) -> Option<VipConfig> {
        let address = self.value(&raw.address, vip_address);
        let interface = self.optional(raw.interface.as_deref(), str::parse::<InterfacePattern>);
        let vlan = self.optional(raw.vlan.as_deref(), vlan_id);
        let bind = self.optional(raw.bind.as_deref(), InterfaceName::parse);
        let guarded_at = self.optional(raw.mac.as_deref(), mac);
        let force = self.word(raw.force.as_deref(), "force", "true, false", |word| word.parse().ok());
        let address = address?;
        match first_lines.entry(address) {
            Entry::Vacant(entry) => _ = entry.insert(raw.address.place.line),
            Entry::Occupied(entry) => {
                self.fault(&raw.address, FaultKind::Duplicate { address, first: *entry.get() });
            }
        }
        if let (Some(_), Some(bind)) = (&raw.mac, &raw.bind) {
            self.fault(bind, FaultKind::GuardedAndBound { address });
        }
        if let (Some(_), Some(force)) = (&raw.mac, &raw.force) {
            self.fault(force, FaultKind::GuardedAndForced { address });
        }
        let force = force?.unwrap_or(false);
        let interface = interface?.map(Box::new);
        Some(VipConfig { address, interface, vlan: vlan?, bind: bind?, mac: guarded_at?, force })
    }

    fn fence(&mut self, raw: &RawFence) -> Option<heartbeat::Settings> {
        let duration = self.duration(raw.duration.as_ref(), "fence.duration", MILLISECOND, FENCE_DURATION);
        let third = duration.unwrap_or(FENCE_DURATION).as_millis() / 3;
        let third = u64::try_from(third).map_or(HEARTBEAT_MOST, Duration::from_millis);
        let default = third.clamp(HEARTBEAT_LEAST, HEARTBEAT_MOST);
        let heartbeat = self.duration(raw.heartbeat.as_ref(), "fence.heartbeat", MILLISECOND, default);
        let policy = self.word(raw.policy.as_ref(), "fence.policy", "stop, hold", |word| match word {
            "stop" => Some(Policy::Stop),
            "hold" => Some(Policy::Hold),
            _ => None,
        });
        let hold_for = self.duration(raw.hold_for.as_ref(), "fence.hold_for", Duration::ZERO, HOLD_FOR);
        let settings = heartbeat::Settings {
            duration: duration?,
            heartbeat: heartbeat?,
            policy: policy?.unwrap_or(Policy::Hold),
            hold_for: hold_for?,
        };
        self.goes_together(raw, &settings).then_some(settings)
    }

    /// Checks that valid values fit together.
    fn goes_together(&mut self, raw: &RawFence, settings: &heartbeat::Settings) -> bool {
        let heartbeat::Settings { duration, heartbeat, policy, hold_for } = *settings;
        let (text, kind) = if duration <= heartbeat * 2 {
            (
                raw.duration.as_ref().or(raw.heartbeat.as_ref()),
                FaultKind::FenceShorterThanHeartbeat { duration, heartbeat },
            )
        } else if policy == Policy::Hold && hold_for.is_zero() {
            (raw.hold_for.as_ref(), FaultKind::HoldForNothing)
        } else {
            return true;
        };
        self.fault(text.expect("invariant: the defaults go together"), kind);
        false
    }

    pub(super) fn duration(
        &mut self,
        text: Option<&Text>,
        key: &'static str,
        least: Duration,
        default: Duration,
    ) -> Option<Duration> {
        let duration = self.optional(text, |value| duration_of(value, key, least))?;
        Some(duration.unwrap_or(default))
    }

    pub(super) fn number(
        &mut self,
        text: Option<&Text>,
        key: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Option<u32> {
        let number = self.optional(text, |value| {
            let (least, most) = (*range.start(), *range.end());
            let fault = || FaultKind::Number { key, value: value.into(), least, most };
            value.parse().ok().filter(|number| range.contains(number)).ok_or_else(fault)
        })?;
        Some(number.unwrap_or(default))
    }
}

/// Parses a duration of at least `least`.
pub(super) fn duration_of(text: &str, key: &'static str, least: Duration) -> Result<Duration, FaultKind> {
    let duration = humantime::parse_duration(text).map_err(|error| FaultKind::Duration {
        key,
        value: text.into(),
        reason: error.to_string().as_str().into(),
    })?;
    if duration < least || duration > LONGEST {
        return Err(FaultKind::DurationRange { key, value: duration, least, most: LONGEST });
    }
    Ok(duration)
}

/// Parses the ID of a VLAN (IEEE 802.1Q: 0 is none, and 4095 is reserved).
fn vlan_id(text: &str) -> Result<u16, FaultKind> {
    let fault = || FaultKind::Number { key: "vlan", value: text.into(), least: 1, most: 4_094 };
    text.parse().ok().filter(|id| (1..=4_094).contains(id)).ok_or_else(fault)
}

fn vip_address(text: &str) -> Result<IpAddr, FaultKind> {
    let address = text.parse::<IpAddr>().map_err(|_| match text.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => FaultKind::Prefix(text.into()),
        Some(_) | None => FaultKind::Address(text.into()),
    })?;
    match NeverAVip::of(address) {
        Some(what) => Err(FaultKind::NeverAVip { address, what }),
        None => Ok(address),
    }
}

fn mac(text: &str) -> Result<MacAddr, FaultKind> {
    let mac = address::mac(text).ok_or_else(|| FaultKind::Mac(text.into()))?;
    let not_one = |what| Err(FaultKind::NotAnInterfacesMac { mac: text.into(), what });
    if mac == MacAddr::BROADCAST {
        not_one("the broadcast address")
    } else if mac.is_multicast() {
        not_one("a multicast address")
    } else if mac.is_zero() {
        not_one("zero")
    } else {
        Ok(mac)
    }
}
