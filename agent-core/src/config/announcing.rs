//! The section `announce`.

use std::time::Duration;

use super::{
    raw::RawAnnounce,
    values::{RATE_MOST, Validator},
};
use crate::segment::announce::Settings;

const REFRESH: Duration = Duration::from_mins(1);
const REFRESH_LEAST: Duration = Duration::from_secs(2);
const RATE: u32 = 1_000;

impl Validator<'_> {
    pub(super) fn announce(&mut self, raw: &RawAnnounce) -> Option<Settings> {
        let refresh = self.duration(raw.refresh.as_ref(), "announce.refresh", REFRESH_LEAST, REFRESH);
        let rate = self.number(raw.rate.as_ref(), "announce.rate", 2..=RATE_MOST, RATE);
        Some(Settings { refresh: refresh?, rate: rate? })
    }
}
