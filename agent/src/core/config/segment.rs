//! What is sent on the segment: announcements, probes, and the defence of a VIP.

use std::{ops::RangeInclusive, time::Duration};

use serde::{Serialize, Serializer};

use super::{
    FaultKind, duration,
    raw::{RawAnnounce, RawConflicts, RawProbe, Text},
    values::{LONGEST, Validator, duration_of},
};
use crate::core::{announce, conflict, probing};

const REFRESH: Duration = Duration::from_mins(1);
const REFRESH_LEAST: Duration = Duration::from_secs(2);
const RATE: u32 = 1_000;
const RATE_MOST: u32 = 1_000_000;
const PROBES_MOST: u32 = 20;
const PROBE_RATE: u32 = 5_000;
/// The word for the RFC's own times.
const RFC_5227: &str = "rfc5227";

impl probing::Settings {
    /// Three probes within 700 ms, and one a minute while a VIP is held.
    pub const DEFAULT: Self = Self {
        count: 3,
        timing: probing::Timing::Every(Duration::from_millis(200)),
        repeat: Some(Duration::from_mins(1)),
        rate: PROBE_RATE,
    };
}

impl conflict::Settings {
    /// Always defended, and over after five quiet minutes.
    pub const DEFAULT: Self = Self { defend: conflict::Defend::Always, quiet: Duration::from_mins(5) };
}

/// A time between two probes, or the word for the RFC's.
pub fn probe_timing(text: &str) -> Result<probing::Timing, FaultKind> {
    const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

    if text == RFC_5227 {
        return Ok(probing::Timing::Rfc5227);
    }
    let interval = humantime::parse_duration(text).ok().filter(|interval| INTERVALS.contains(interval));
    interval.map(probing::Timing::Every).ok_or_else(|| FaultKind::ProbeInterval(text.to_owned()))
}

/// The time between two probes for a held VIP; zero for none at all.
pub fn probe_repeat(repeat: Duration) -> Result<Option<Duration>, FaultKind> {
    const LEAST: Duration = Duration::from_secs(1);

    if repeat.is_zero() {
        return Ok(None);
    }
    let is_good = (LEAST..=LONGEST).contains(&repeat);
    let fault = FaultKind::ProbeRepeat { value: repeat, least: LEAST, most: LONGEST };
    if is_good { Ok(Some(repeat)) } else { Err(fault) }
}

/// How long a conflict must have been quiet to be over.
pub fn conflict_quiet(text: &str) -> Result<Duration, FaultKind> {
    const LEAST: Duration = Duration::from_secs(1);

    duration_of(text, "conflicts.quiet", LEAST)
}

impl Validator<'_> {
    pub(super) fn announce(&mut self, raw: &RawAnnounce) -> Option<announce::Settings> {
        let refresh = self.duration(raw.refresh.as_ref(), "announce.refresh", REFRESH_LEAST, REFRESH);
        let rate = self.number(raw.rate.as_ref(), "announce.rate", 2..=RATE_MOST, RATE);
        Some(announce::Settings { refresh: refresh?, rate: rate? })
    }

    pub(super) fn probe(&mut self, raw: &RawProbe) -> Option<probing::Settings> {
        let probing::Settings { count, timing, repeat, rate } = probing::Settings::DEFAULT;
        let count = self.number(raw.count.as_ref(), "probe.count", 0..=PROBES_MOST, count);
        let timing = self.optional(raw.interval.as_ref(), probe_timing).map(|set| set.unwrap_or(timing));
        let seconds = repeat.unwrap_or_default();
        let repeat = self.duration(raw.repeat.as_ref(), "probe.repeat", Duration::ZERO, seconds);
        let repeat = repeat.and_then(|repeat| match (probe_repeat(repeat), &raw.repeat) {
            (Ok(repeat), _) => Some(repeat),
            (Err(kind), Some(text)) => {
                self.fault(text, kind);
                None
            }
            (Err(_), None) => None,
        });
        let rate = self.number(raw.rate.as_ref(), "probe.rate", 1..=RATE_MOST, rate);
        Some(probing::Settings { count: count?, timing: timing?, repeat: repeat?, rate: rate? })
    }

    pub(super) fn conflicts(&mut self, raw: &RawConflicts) -> Option<conflict::Settings> {
        let conflict::Settings { defend: _, quiet } = conflict::Settings::DEFAULT;
        let words = "always, once, never";
        let defend = self.word(raw.defend.as_ref(), "conflicts.defend", words, |word| match word {
            "always" => Some(conflict::Defend::Always),
            "once" => Some(conflict::Defend::Once),
            "never" => Some(conflict::Defend::Never),
            _ => None,
        });
        let quiet = self.optional(raw.quiet.as_ref(), conflict_quiet).map(|set| set.unwrap_or(quiet));
        Some(conflict::Settings { defend: defend?.unwrap_or_default(), quiet: quiet? })
    }

    fn number(
        &mut self,
        text: Option<&Text>,
        key: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Option<u32> {
        let number = self.optional(text, |value| {
            let (least, most) = (*range.start(), *range.end());
            let fault = || FaultKind::Number { key, value: value.to_owned(), least, most };
            value.parse().ok().filter(|number| range.contains(number)).ok_or_else(fault)
        })?;
        Some(number.unwrap_or(default))
    }
}

pub(super) fn announce<S: Serializer>(
    announce: &announce::Settings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Announce {
        refresh: String,
        rate: u32,
    }
    Announce { refresh: duration(announce.refresh), rate: announce.rate }.serialize(serializer)
}

pub(super) fn probe<S: Serializer>(probe: &probing::Settings, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Probe {
        count: u32,
        interval: String,
        repeat: String,
        rate: u32,
    }
    let probing::Settings { count, timing, repeat, rate } = *probe;
    let interval = match timing {
        probing::Timing::Every(interval) => duration(interval),
        probing::Timing::Rfc5227 => RFC_5227.to_owned(),
    };
    Probe { count, interval, repeat: duration(repeat.unwrap_or_default()), rate }.serialize(serializer)
}

pub(super) fn conflicts<S: Serializer>(
    conflicts: &conflict::Settings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Conflicts {
        defend: &'static str,
        quiet: String,
    }
    let defend = match conflicts.defend {
        conflict::Defend::Always => "always",
        conflict::Defend::Once => "once",
        conflict::Defend::Never => "never",
    };
    Conflicts { defend, quiet: duration(conflicts.quiet) }.serialize(serializer)
}
