//! Hardware addresses of Ethernet.

use core::fmt;

use bytemuck::{Pod, Zeroable};

/// A 48-bit hardware address in wire order.
///
/// It is aligned to two bytes, as in every frame and map value. The BPF back
/// end then moves it in three loads instead of six.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Pod, Zeroable)]
#[repr(C, align(2))]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00, which stands for "unknown" wherever an address is optional.
    pub const ZERO: Self = Self([0; 6]);

    /// Returns the address in the low 48 bits, in memory order, to compare it or to store it in a
    /// word.
    #[inline(always)]
    pub fn to_bits(self) -> u64 {
        let [a, b, c]: [u16; 3] = bytemuck::cast(self.0);
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32
    }

    /// Returns the address in the low 48 bits; the inverse of [`MacAddr::to_bits`].
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
    pub fn from_bits(bits: u64) -> Self {
        Self(bytemuck::cast([bits as u16, (bits >> 16) as u16, (bits >> 32) as u16]))
    }

    /// Returns true if the address is all zeros.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self.to_bits() == 0
    }

    /// Returns true if the group bit is set, as it is in the broadcast address.
    #[inline(always)]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns true if the address may be an interface's: neither zero nor a group.
    #[inline(always)]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }
}

/// Serialises the address as text.
#[cfg(feature = "serde")]
impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
