//! A set of slots, one bit each.

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots(Vec<u64>);

impl FromIterator<u32> for Slots {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl Slots {
    const fn place(slot: u32) -> (usize, u64) {
        ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
    }

    pub fn insert(&mut self, slot: u32) {
        let (word, bit) = Self::place(slot);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    pub fn remove(&mut self, slot: u32) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    pub fn contains(&self, slot: u32) -> bool {
        let (word, bit) = Self::place(slot);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}
