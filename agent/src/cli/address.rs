//! The addresses that commands take.

use std::net::IpAddr;

use vipward_core::records::vip_named;

#[cfg(test)]
mod tests;

/// Parses an address that a host can have: in any of its spellings, or as the name of its
/// `VirtualIP` object. Fails for any other address or text.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let parsed = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let Some(address) = parsed.or_else(|| vip_named(text)) else {
        return Err("it is no address such as 192.0.2.10 or 2001:db8::10".to_owned());
    };
    let what = if address.is_unspecified() {
        "no address"
    } else if address.is_loopback() {
        "an address that every host has for itself"
    } else if address.is_multicast() {
        "a group's address"
    } else if matches!(address, IpAddr::V4(v4) if v4.is_broadcast()) {
        "everybody's address"
    } else {
        return Ok(address);
    };
    Err(format!("it is {what}: no host answers for it"))
}
