//! Decides why the program runs in generic mode.

/// The reason why the program runs, or would run, in generic mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyGeneric {
    /// The interface is a veth. In native mode its other end would have to run an XDP program too,
    /// or the kernel would not deliver what the program transmits.
    Veth,
    /// The driver offers native XDP, and has refused it or was not asked.
    Refused,
    /// The driver has no native XDP.
    NotOffered,
    /// The kernel does not say whether the driver has native XDP.
    Unknown,
}

impl WhyGeneric {
    /// Returns the reason, by the interface's kind and by what its driver says of native XDP.
    pub fn of(kind: &str, offers_native: Option<bool>) -> Self {
        match offers_native {
            _ if kind == "veth" => Self::Veth,
            Some(true) => Self::Refused,
            Some(false) => Self::NotOffered,
            None => Self::Unknown,
        }
    }
}
