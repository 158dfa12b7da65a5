//! The third table: answers to neighbour solicitations.

/// A row of the third table: the solicitation that is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Solicitation {
    /// By a host, with a source option.
    Named,
    /// By a host without one, to a group.
    ToGroup,
    /// By a host without one, to the VIP.
    ToVip,
    /// The same, in a handover.
    ToVipInHandover,
    Probe,
}

impl Solicitation {
    /// Every row.
    pub(super) const ALL: [Self; 5] =
        [Self::Named, Self::ToGroup, Self::ToVip, Self::ToVipInHandover, Self::Probe];
}

/// The content of a cell of the third table: the advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertisement {
    /// The flag S.
    pub solicited: bool,
    /// The flag O.
    pub overrides: bool,
    /// The place of the target option.
    pub option: Place,
}

/// The place of the option in an advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    None,
    /// The place of the first option of eight bytes of this type.
    Of(u8),
    End,
    /// The place right behind the target: no other option stays.
    Alone,
}

/// Returns the third table's content for a solicitation.
#[expect(clippy::match_same_arms, reason = "one arm per row, in the order of the document")]
pub fn advertise(solicitation: Solicitation) -> Advertisement {
    let (solicited, overrides, option) = match solicitation {
        Solicitation::Named => (true, true, Place::Of(1)),
        Solicitation::ToGroup => (true, true, Place::End),
        Solicitation::ToVip => (true, false, Place::None),
        Solicitation::ToVipInHandover => (true, true, Place::End),
        Solicitation::Probe => (false, true, Place::Alone),
    };
    Advertisement { solicited, overrides, option }
}
