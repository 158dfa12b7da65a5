//! A bitmap in front of the look-up of a claimed address. Most senders are no VIP, and
//! one bit shows that without a hash look-up.

/// The number of bits. 128 KiB stay in the second-level cache beside 65,536 entries.
pub const FILTER_BITS: u32 = 1 << 20;
/// The number of 64-bit words: the entries of the `filter` map.
pub const FILTER_WORDS: u32 = FILTER_BITS / 64;

/// Returns the bit of `addr`, on any interface. A set bit means
/// "perhaps a VIP", a clear bit "no VIP".
///
/// Neighbouring addresses share cache lines. A multiplier spreads
/// networks that differ above the low 20 bits.
#[inline(always)]
pub fn filter_bit(addr: [u8; 4]) -> u32 {
    let addr = u32::from_be_bytes(addr);
    (addr ^ (addr >> 20).wrapping_mul(0x9e37_79b1) >> 12) & (FILTER_BITS - 1)
}

/// Returns the bit of an IPv6 address. Its words share the bits with IPv4's addresses.
#[inline(always)]
pub fn filter_bit_v6(addr: [u8; 16]) -> u32 {
    let word = |at: usize| u32::from_be_bytes([addr[at], addr[at + 1], addr[at + 2], addr[at + 3]]);
    filter_bit((word(0) ^ word(4) ^ word(8) ^ word(12)).to_be_bytes())
}

#[cfg(test)]
mod tests;
