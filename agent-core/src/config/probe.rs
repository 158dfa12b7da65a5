//! The section `probe`.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    FaultKind,
    raw::RawProbe,
    sections::RFC_5227,
    values::{LONGEST, RATE_MOST, Validator},
};
use crate::segment::probing::{Proxied, Settings, Timing};

const PROBES_MOST: u32 = 20;

/// Parses the time between two probes, or the word for the RFC's own times. Fails for any other
/// word, and for a duration below 10 ms or above 10 s.
pub fn probe_timing(text: &str) -> Result<Timing, FaultKind> {
    const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

    if text == RFC_5227 {
        return Ok(Timing::Rfc5227);
    }
    let interval = humantime::parse_duration(text).ok().filter(|interval| INTERVALS.contains(interval));
    interval.map(Timing::Every).ok_or_else(|| FaultKind::ProbeInterval(text.into()))
}

/// Returns the time between two probes for a held VIP. Returns none for zero, which
/// turns the probes off. Fails if any other time is below one second or above 30 days.
pub fn probe_repeat(repeat: Duration) -> Result<Option<Duration>, FaultKind> {
    const LEAST: Duration = Duration::from_secs(1);

    if repeat.is_zero() {
        return Ok(None);
    }
    let is_good = (LEAST..=LONGEST).contains(&repeat);
    let fault = FaultKind::ProbeRepeat { value: repeat, least: LEAST, most: LONGEST };
    if is_good { Ok(Some(repeat)) } else { Err(fault) }
}

impl Validator<'_> {
    pub(super) fn probe(&mut self, raw: &RawProbe) -> Option<Settings> {
        let Settings { count, timing, repeat, rate, proxied } = Settings::DEFAULT;
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
        let known = self.word(raw.proxied.as_ref(), "probe.proxied", "take, wait", |word| match word {
            "take" => Some(Proxied::Take),
            "wait" => Some(Proxied::Wait),
            _ => None,
        });
        let proxied = known.map(|known| known.unwrap_or(proxied));
        Some(Settings { count: count?, timing: timing?, repeat: repeat?, rate: rate?, proxied: proxied? })
    }
}
