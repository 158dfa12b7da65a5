//! Reads keys and values that another version has written.

use bytemuck::CheckedBitPattern;

use super::{Described, Field, FieldName, Place, Shape};

/// The largest size of a value that [`Decoder::read`] returns.
const MOST_BYTES: usize = 64;
/// The largest number of fields of a key or value that can be read.
const MOST_FIELDS: usize = 16;

/// Reads keys or values in which the fields may have other places and sizes than in this version.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    steps: [Step; MOST_FIELDS],
    count: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct Step {
    from: Place,
    to: Place,
    is_number: bool,
}

impl Decoder {
    /// Returns a reader of what has these fields in this version. `name` is the map's, or its
    /// keys'. `place_of` returns the record of a field, if there is one.
    pub fn new(
        fields: &'static [Field],
        name: FieldName,
        place_of: impl Fn(&FieldName) -> Option<Place>,
    ) -> Self {
        let mut decoder = Self { steps: [Step::default(); MOST_FIELDS], count: 0 };
        Field::visit(fields, name, &mut |name, to, shape| {
            // A field that was not there reads as 0.
            let Some(from) = place_of(&name) else { return };
            decoder.steps[decoder.count] = Step { from, to, is_number: shape == Shape::Number };
            decoder.count += 1;
        });
        decoder
    }

    /// Puts the fields of `found` to their places in `bytes`, which are zeros. Returns `None` if a
    /// field is beyond the end, or if what it has does not fit.
    pub fn translate(&self, found: &[u8], bytes: &mut [u8]) -> Option<()> {
        for step in &self.steps[..self.count] {
            let from = slice(found, step.from)?;
            let to = bytes.get_mut(usize::from(step.to.offset)..)?.get_mut(..usize::from(step.to.bytes))?;
            if step.is_number {
                let number = number(from)?.to_le_bytes();
                let (kept, cut) = number.split_at_checked(to.len())?;
                if cut.iter().any(|byte| *byte != 0) {
                    return None;
                }
                to.copy_from_slice(kept);
                if cfg!(target_endian = "big") {
                    to.reverse();
                }
            } else if from.len() == to.len() {
                to.copy_from_slice(from);
            } else {
                return None;
            }
        }
        Some(())
    }

    /// Returns the value in `found`. Returns `None` as [`Self::translate`] does, and if the bytes
    /// are no value of `T`.
    pub fn read<T: Described + CheckedBitPattern>(&self, found: &[u8]) -> Option<T> {
        const { assert!(size_of::<T>() <= MOST_BYTES) };
        let mut bytes = [0; MOST_BYTES];
        let bytes = &mut bytes[..size_of::<T>()];
        self.translate(found, bytes)?;
        bytemuck::checked::try_pod_read_unaligned(bytes).ok()
    }
}

fn slice(of: &[u8], place: Place) -> Option<&[u8]> {
    of.get(usize::from(place.offset)..)?.get(..usize::from(place.bytes))
}

/// Returns a number in the machine's order.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..bytes.len())?.copy_from_slice(bytes);
    if cfg!(target_endian = "big") {
        number[..bytes.len()].reverse();
    }
    Some(u64::from_le_bytes(number))
}
