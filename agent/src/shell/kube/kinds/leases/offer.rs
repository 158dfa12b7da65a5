//! The text form of an [`Offer`] in a Lease: one JSON object.

use serde::{Deserialize, Serialize};
use vipward_core::records::{KeyId, MOST_INVITED, Mode, Offer, PROTO, Wid};

#[cfg(test)]
pub(super) mod tests;

/// The largest number of voters.
const MOST_COUNTED: usize = 3;
/// The largest number of keys that a node accepts.
const MOST_KEYS: usize = 4;

#[derive(Serialize, Deserialize)]
struct Text {
    proto: u32,
    wid: String,
    mode: String,
    round: u64,
    invited: Vec<String>,
    set: Vec<String>,
    need: usize,
    keys: Vec<u8>,
}

pub(super) fn text(offer: &Offer) -> String {
    let Offer { wid, mode, round, invited, set, need, keys } = offer;
    let wids = |wids: &[Wid]| wids.iter().map(ToString::to_string).collect();
    let text = Text {
        proto: PROTO,
        wid: wid.to_string(),
        mode: match mode {
            Mode::Off => "off",
            Mode::Notice => "notice",
        }
        .to_owned(),
        round: *round,
        invited: wids(invited),
        set: wids(set),
        need: *need,
        keys: keys.iter().map(|KeyId(id)| *id).collect(),
    };
    serde_json::to_string(&text).expect("invariant: numbers and texts are JSON")
}

/// Reads an offer. Returns none for a text of another protocol, and for one that no agent writes. The
/// session of a node with such a text expires by its Lease alone.
pub(super) fn read(text: &str) -> Option<Offer> {
    let Text { proto, wid: own, mode, round, invited, set, need, keys } = serde_json::from_str(text).ok()?;
    if proto != PROTO || keys.len() > MOST_KEYS || keys.contains(&0) {
        return None;
    }
    let invited = wids(&invited, MOST_INVITED)?;
    let set = wids(&set, MOST_COUNTED)?;
    let mode = match mode.as_str() {
        "off" => Mode::Off,
        "notice" => Mode::Notice,
        _ => return None,
    };
    let is_sound = match mode {
        Mode::Off => set.is_empty(),
        Mode::Notice => {
            (1..=set.len()).contains(&need) && set.iter().all(|counted| invited.contains(counted))
        }
    };
    let keys = keys.into_iter().map(KeyId).collect();
    is_sound.then_some(Offer { wid: wid(&own)?, mode, round, invited, set, need, keys })
}

fn wids(texts: &[String], most: usize) -> Option<Vec<Wid>> {
    let mut wids: Vec<Wid> = Vec::new();
    for text in texts {
        let wid = wid(text).filter(|wid| !wids.contains(wid))?;
        wids.push(wid);
    }
    (wids.len() <= most).then_some(wids)
}

fn wid(text: &str) -> Option<Wid> {
    let is_number = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Wid::from_number(u64::from_str_radix(text, 16).ok().filter(|_| is_number)?)
}
