//! Errors in the cells of the tables. A comparison must notice each.

use super::{Advertisement, Cell, Effect, EventName, Expect, Place, Row, expect};

impl Cell {
    /// Returns the possible errors of the cell.
    pub fn flips(self) -> Vec<Flip> {
        if let Self::Answer(_) = self {
            return vec![Flip::Solicited, Flip::Overrides, Flip::Option];
        }
        let mut flips = vec![Flip::Effect, Flip::Counter];
        if let Self::Claim { row, .. } = self {
            flips.push(Flip::Event);
            if matches!(row, Row::Held(_) | Row::Handover(_)) {
                flips.push(Flip::Yields);
            }
        }
        if let Self::Request { row: Row::ForeignUnknown, .. } = self {
            flips.push(Flip::Event);
        }
        if expect(self).effect == Effect::Answer || expect(self).defended {
            flips.push(Flip::Bytes);
        }
        if expect(self).effect == Effect::Drop && matches!(self, Self::Claim { .. }) {
            flips.push(Flip::Defended);
        }
        flips
    }
}

/// An error in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flip {
    /// Frames that pass or are answered are dropped, and dropped frames pass.
    Effect,
    /// Another counter increases.
    Counter,
    /// An expected event is missing, or an unexpected one is sent.
    Event,
    /// An expected yield is missing, or an unexpected one happens.
    Yields,
    /// The answer or the announcement has a wrong MAC.
    Bytes,
    /// An expected defence is missing, or an unexpected one is sent.
    Defended,
    /// The advertisement has the wrong flag S.
    Solicited,
    /// The advertisement has the wrong flag O.
    Overrides,
    /// The advertisement has its option in another place, or a needless one.
    Option,
}

impl Flip {
    pub(in crate::oracle) fn of(self, expected: Expect) -> Expect {
        match self {
            Self::Effect => Expect {
                effect: match expected.effect {
                    Effect::Pass | Effect::Answer => Effect::Drop,
                    Effect::Drop => Effect::Pass,
                },
                ..expected
            },
            Self::Counter => Expect {
                counter: if expected.counter == "unrelated" { "unread" } else { "unrelated" },
                ..expected
            },
            Self::Event => Expect {
                event: if expected.event.is_some() { None } else { Some(EventName::Moved) },
                ..expected
            },
            Self::Yields => Expect { yields: !expected.yields, ..expected },
            Self::Defended => Expect { defended: !expected.defended, ..expected },
            Self::Bytes | Self::Solicited | Self::Overrides | Self::Option => expected,
        }
    }

    pub(in crate::oracle) fn of_advertisement(self, expected: Advertisement) -> Advertisement {
        match self {
            Self::Solicited => Advertisement { solicited: !expected.solicited, ..expected },
            Self::Overrides => Advertisement { overrides: !expected.overrides, ..expected },
            Self::Option => {
                let option = if expected.option == Place::End { Place::None } else { Place::End };
                Advertisement { option, ..expected }
            }
            Self::Effect | Self::Counter | Self::Event | Self::Yields | Self::Bytes | Self::Defended => {
                expected
            }
        }
    }
}
