//! The text form of values in objects: MACs, times, names.

use k8s_openapi::jiff::Timestamp;
use vipward_common::MacAddr;

use vipward_core::{base::legible::MAX_MESSAGE, records::ServiceName};

#[cfg(test)]
mod tests;

/// Returns the time of the wall clock, to show. No decision may depend on it.
pub(crate) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// Returns `at` in the form of `metav1.Time`.
pub(crate) fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// Returns `at` in the form of `metav1.MicroTime`.
pub(crate) fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Reads the MAC of an interface, in the form that [`MacAddr`] displays.
pub(crate) fn mac(text: &str) -> Option<MacAddr> {
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

/// Returns Services in the form of a column: `namespace/name`, separated by commas.
pub(crate) fn join_services(services: &[ServiceName]) -> String {
    services.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Reads the output of [`join_services`]. Leaves out other text.
pub(crate) fn split_services(text: &str) -> Vec<ServiceName> {
    text.split(',').filter_map(|name| service(name.trim())).collect()
}

/// Reads `namespace/name`.
pub(crate) fn service(text: &str) -> Option<ServiceName> {
    let (namespace, name) = text.split_once('/')?;
    let is_one = |part: &str| !part.is_empty() && !part.contains('/');
    (is_one(namespace) && is_one(name))
        .then(|| ServiceName { namespace: namespace.into(), name: name.into() })
}

/// Returns the part of `text` that fits a field of `characters`.
pub(crate) fn clipped(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// Returns the part of `text` that fits a field of `bytes`, in whole characters.
pub(crate) fn clipped_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the part of `text` that fits the status of a claim, as it is: nodes compare it.
pub(crate) fn finding(text: &str) -> &str {
    clipped(text, MAX_MESSAGE)
}
