//! Reasons why the program runs in generic mode.

/// The reason why the program runs, or would run, in generic mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyGeneric {
    /// The interface is a veth. In native mode the kernel would deliver what the program
    /// transmits only if the other end ran an XDP program too.
    Veth,
    /// The driver has native XDP, but has refused it or was not asked.
    Refused,
    /// The driver has no native XDP.
    NotOffered,
    /// The kernel does not say whether the driver has native XDP.
    Unknown,
}

impl WhyGeneric {
    /// Returns the reason, by the interface's kind and by the driver's offer of native XDP.
    pub fn of(kind: &str, offers_native: Option<bool>) -> Self {
        match offers_native {
            _ if kind == "veth" => Self::Veth,
            Some(true) => Self::Refused,
            Some(false) => Self::NotOffered,
            None => Self::Unknown,
        }
    }
}
