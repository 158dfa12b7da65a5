//! SipHash-2-4 (Aumasson and Bernstein, 2012): the tag of a wire frame.

/// A key of the hash. It has no `Debug`, so that no log has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey {
    /// The first eight bytes, as a little-endian number.
    pub k0: u64,
    /// The last eight bytes.
    pub k1: u64,
}

impl SipKey {
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let [k0, k1]: [[u8; 8]; 2] = bytemuck::cast(bytes);
        Self { k0: u64::from_le_bytes(k0), k1: u64::from_le_bytes(k1) }
    }

    /// Returns the hash of a message of `N` units of eight bytes, as they stand in memory.
    ///
    /// It is no part of its callers: the program needs it twice, and has little room.
    #[inline(never)]
    pub fn hash<const N: usize>(self, units: &[u64; N]) -> u64 {
        let Self { k0, k1 } = self;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let mut compress = |word: u64| {
            v[3] ^= word;
            v = round(round(v));
            v[0] ^= word;
        };
        for unit in units {
            compress(u64::from_le(*unit));
        }
        // The last word has the bytes that make no whole word, of which there are none, and the length.
        compress((N as u64 * 8) << 56);
        v[2] ^= 0xff;
        round(round(round(round(v)))).into_iter().fold(0, |hash, word| hash ^ word)
    }
}

/// The round of the algorithm (`SipRound`).
#[inline(always)]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32);
    c = c.wrapping_add(b);
    a = a.wrapping_add(d);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[cfg(test)]
mod tests;
