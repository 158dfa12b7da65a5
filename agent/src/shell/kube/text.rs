//! Small things that objects have as text: MACs, times, names.

use k8s_openapi::jiff::Timestamp;
use vipward_common::MacAddr;

use crate::core::cluster::ServiceName;

#[cfg(test)]
mod tests;

/// The longest message that a condition may have, in characters.
const MAX_MESSAGE: usize = 32_768;

/// Now, on the wall clock. It is for people to read: nothing may be decided by it.
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// `at` as `metav1.Time` is written.
pub(super) fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// `at` as `metav1.MicroTime` is written.
pub(super) fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Reads a MAC that one interface can have, as [`MacAddr`] is displayed.
pub(super) fn mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2)?;
        if !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    let mac = MacAddr(octets);
    (parts.next().is_none() && mac.is_unicast()).then_some(mac)
}

/// Services as a column shows them: `namespace/name`, separated by commas.
pub(super) fn join_services(services: &[ServiceName]) -> String {
    services.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Reads what [`join_services`] writes, and leaves out what is no Service's name.
pub(super) fn split_services(text: &str) -> Vec<ServiceName> {
    text.split(',').filter_map(|name| service(name.trim())).collect()
}

/// Reads `namespace/name`.
pub(super) fn service(text: &str) -> Option<ServiceName> {
    let (namespace, name) = text.split_once('/')?;
    let is_one = |part: &str| !part.is_empty() && !part.contains('/');
    (is_one(namespace) && is_one(name))
        .then(|| ServiceName { namespace: namespace.into(), name: name.into() })
}

/// As much of `text` as a field of `characters` takes.
pub(super) fn clipped(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// As much of `text`, in whole characters, as a field of `bytes` takes.
pub(super) fn clipped_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// As much of `text` as a condition's message takes.
pub(super) fn message(text: &str) -> &str {
    clipped(text, MAX_MESSAGE)
}
