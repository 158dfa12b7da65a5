//! How often something is disturbed at a time.

/// The number of overlapping disturbances of one kind that are in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times(u8);

impl Times {
    pub(crate) fn change(&mut self, begins: bool) {
        self.0 = if begins { self.0 + 1 } else { self.0.saturating_sub(1) };
    }

    pub(crate) fn count(self) -> u32 {
        self.0.into()
    }

    pub(crate) fn any(self) -> bool {
        self.0 > 0
    }
}
