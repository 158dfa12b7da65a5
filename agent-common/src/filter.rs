//! A bitmap in front of the look-up by spa: most askers are no VIP, and one bit says so without touching the hash map.

/// Number of bits; 128 KiB stay in the second-level cache beside 65,536 entries.
pub const FILTER_BITS: u32 = 1 << 20;
/// The same, in 64-bit words: the entries of the `filter` map.
pub const FILTER_WORDS: u32 = FILTER_BITS / 64;

/// The bit that stands for `addr` on any interface: a set bit means "perhaps a VIP", a clear one "surely none".
///
/// Neighbouring addresses share cache lines; networks that differ above the low 20 bits are spread by a multiplier.
#[inline(always)]
pub fn filter_bit(addr: [u8; 4]) -> u32 {
    let addr = u32::from_be_bytes(addr);
    (addr ^ (addr >> 20).wrapping_mul(0x9e37_79b1) >> 12) & (FILTER_BITS - 1)
}

#[cfg(test)]
mod tests;
