//! Reasons of problems: one word each, which alerts and queries select.

use super::{
    super::{Ineffective, Refusal},
    Problem,
};
use crate::pools::{Apart, Lack};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ProblemReason {
            $($(#[$doc])* $name,)*
        }

        impl ProblemReason {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// A value cannot be read.
    MalformedValue,
    AddressRefused,
    /// The Service does not have the family of an address.
    WrongFamily,
    /// Something else needs the address of a VIP that stays.
    AddressDisputed,
    /// Another Service has the address, or had it.
    AddressReserved,
    /// The API server refuses a reservation.
    ReservationFailed,
    /// The API server refuses a status.
    StatusFailed,
    /// The status does not name a VIP that is announced.
    NotInStatus,
    NoSuchPool,
    NoPool,
    NoController,
    EndpointsUnknown,
    PoolExhausted,
    /// No node can announce an address of the pool.
    PoolNotAnnounced,
    /// The pool does not serve the Service.
    PoolNotForService,
    /// The Service keeps an address that the pool would not give it any more.
    OutOfPool,
    /// An admin wants an address released that the Service requests by name.
    ReleaseWaits,
    TooManyAddresses,
    /// The namespace has as many VIPs as it may have.
    NamespaceLimit,
    NotShared,
    PortClash,
    /// The VIP may be where the Service has no endpoint.
    EndpointsElsewhere,
    /// A node's service proxy does not say whether it delivers.
    ProxyUnreachable,
    /// The owner of a shared VIP decides.
    OwnerDecides,
    UnknownAnnotation,
    ForeignAnnotation,
    ContradictingRequests,
    ExternalIPsDeprecated,
    ExternalIPsNotServed,
    /// Another controller serves the Service too.
    OtherController,
    StatusContested,
    HandedOver,
    /// An object of another program cannot be used, or is not served.
    ObjectNotUsed,
}

impl Problem {
    pub fn reason(&self) -> ProblemReason {
        match self {
            Self::Malformed { .. } => ProblemReason::MalformedValue,
            Self::Refused { why: Refusal::WrongFamily { .. }, .. } => ProblemReason::WrongFamily,
            Self::Refused { .. } => ProblemReason::AddressRefused,
            Self::OtherManager { .. } | Self::SharedStatus { .. } | Self::OtherController { .. } => {
                ProblemReason::OtherController
            }
            Self::Contested { .. } => ProblemReason::StatusContested,
            Self::HandedOver { .. } => ProblemReason::HandedOver,
            Self::Disputed { .. } => ProblemReason::AddressDisputed,
            Self::Unconfirmed { .. } => ProblemReason::NotInStatus,
            Self::Ineffective { why: Ineffective::Former { .. }, .. } | Self::Contradiction { .. } => {
                ProblemReason::ContradictingRequests
            }
            Self::Ineffective { why, .. } if why.is_foreign() => ProblemReason::ForeignAnnotation,
            Self::Ineffective { .. } => ProblemReason::UnknownAnnotation,
            Self::ExternalIps => ProblemReason::ExternalIPsDeprecated,
            Self::ExternalIpsUnserved { .. } => ProblemReason::ExternalIPsNotServed,
            Self::Lacking(lack) => of_lack(lack),
            Self::NotReserved { .. } => ProblemReason::ReservationFailed,
            Self::StatusRefused { .. } => ProblemReason::StatusFailed,
            Self::TooManyAddresses { .. } => ProblemReason::TooManyAddresses,
            Self::TooManyVips { .. } => ProblemReason::NamespaceLimit,
            Self::Unshared { .. } => ProblemReason::NotShared,
            Self::Clash { .. } => ProblemReason::PortClash,
            Self::Partial { .. } => ProblemReason::EndpointsElsewhere,
            Self::ProxyUnreachable { .. } => ProblemReason::ProxyUnreachable,
            Self::Disagrees { .. } => ProblemReason::OwnerDecides,
        }
    }
}

fn of_lack(lack: &Lack) -> ProblemReason {
    match lack {
        Lack::NoSuchPool { .. } => ProblemReason::NoSuchPool,
        Lack::NotServed { .. } | Lack::NotServedAddress { .. } => ProblemReason::PoolNotForService,
        Lack::NoPool { .. } | Lack::NoPoolAtAll => ProblemReason::NoPool,
        Lack::NoController { .. } => ProblemReason::NoController,
        Lack::EndpointsUnknown => ProblemReason::EndpointsUnknown,
        Lack::UsedUp { .. } => ProblemReason::PoolExhausted,
        Lack::NotAnnounced { .. } => ProblemReason::PoolNotAnnounced,
        Lack::Unjoined { why: Apart::Port(_), .. } => ProblemReason::PortClash,
        Lack::Unjoined { .. } => ProblemReason::NotShared,
        Lack::Reserved { .. } => ProblemReason::AddressReserved,
        Lack::AskedByName { .. } => ProblemReason::ReleaseWaits,
        Lack::TooMany { .. } => ProblemReason::NamespaceLimit,
        Lack::OutOfPool { .. } => ProblemReason::OutOfPool,
        Lack::NotOfNamedPool { .. } => ProblemReason::ContradictingRequests,
    }
}
