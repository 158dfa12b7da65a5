//! The layout of the pinned maps: the fields of their keys and values, as the pins describe them.
//!
//! The map `layout` has a record for every field of every pinned map: its name and its place. An
//! agent of any version reads the maps of any other through it (`docs/internals/adr/0008`). The format of a
//! record, [`FieldName`] and [`Place`], never changes.

use core::fmt;

use bytemuck::{Pod, Zeroable};

mod decode;

pub use self::decode::Decoder;

/// The number of records that the map `layout` has room for. It never changes.
pub const MAX_FIELDS: u32 = 1_024;

/// The name of a field, the key of `layout`: `MAP.FIELD`, or `MAP.key.FIELD`, in ASCII. Zeros fill
/// it up. This format never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct FieldName {
    /// The text, and zeros.
    pub text: [u8; 48],
}

/// The place of a field in its key or value, the value of `layout`. This format never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Place {
    /// The offset in bytes.
    pub offset: u16,
    pub bytes: u16,
}

const _: () = assert!(size_of::<FieldName>() == 48 && size_of::<Place>() == 4);

impl FieldName {
    /// Returns the name that begins with a map's.
    pub fn of(map: &str) -> Self {
        Self::zeroed().with(map.as_bytes())
    }

    #[must_use]
    pub fn dot(self, part: &str) -> Self {
        self.with(b".").with(part.as_bytes())
    }

    fn with(mut self, more: &[u8]) -> Self {
        let start = self.len();
        self.text[start..][..more.len()].copy_from_slice(more);
        self
    }

    fn len(&self) -> usize {
        self.text.iter().position(|byte| *byte == 0).unwrap_or(self.text.len())
    }

    /// Returns the text, or `?` if another writer has put something else here.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text[..self.len()]).unwrap_or("?")
    }

    pub fn map(&self) -> &str {
        self.as_str().split('.').next().unwrap_or_default()
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The meaning of a field's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A number in the machine's order, of any size. Enums count as numbers.
    Number,
    /// Bytes in a fixed order, such as an address.
    Bytes,
    Parts(&'static [Field]),
}

/// A type that a field can have.
pub trait Shaped {
    /// The meaning of its bytes.
    const SHAPE: Shape;
}

/// Declares these types as numbers.
macro_rules! number {
    ($($type:ty),+) => {
        $(impl $crate::layout::Shaped for $type {
            const SHAPE: $crate::layout::Shape = $crate::layout::Shape::Number;
        })+
    };
}

number!(u16, u32, u64);

impl<const N: usize> Shaped for [u8; N] {
    const SHAPE: Shape = Shape::Bytes;
}

/// A field of a key or value. One whose name begins with `_` only fills a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: &'static str,
    pub place: Place,
    /// The meaning of its bytes.
    pub shape: Shape,
}

impl Field {
    /// Returns the field of `S` that `get` returns.
    pub const fn new<S, F: Shaped>(name: &'static str, offset: usize, get: fn(&S) -> &F) -> Self {
        let _ = get;
        Self { name, place: place(offset, size_of::<F>()), shape: F::SHAPE }
    }

    /// Visits the fields, and the parts of those that have parts, by name.
    pub fn visit(fields: &'static [Self], name: FieldName, visit: &mut impl FnMut(FieldName, Place, Shape)) {
        Self::visit_from(fields, name, 0, visit);
    }

    fn visit_from<V: FnMut(FieldName, Place, Shape)>(
        fields: &'static [Self],
        name: FieldName,
        start: u16,
        visit: &mut V,
    ) {
        for field in fields.iter().filter(|field| !field.name.starts_with('_')) {
            let (name, offset) = (name.dot(field.name), start + field.place.offset);
            match field.shape {
                Shape::Number | Shape::Bytes => visit(name, Place { offset, ..field.place }, field.shape),
                Shape::Parts(parts) => Self::visit_from(parts, name, offset, visit),
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
pub(crate) const fn place(offset: usize, bytes: usize) -> Place {
    assert!(offset + bytes <= u16::MAX as usize);
    Place { offset: offset as u16, bytes: bytes as u16 }
}

/// A key or value whose fields are described.
pub trait Described {
    const FIELDS: &'static [Field];
}

impl<T: Described> Shaped for T {
    const SHAPE: Shape = Shape::Parts(T::FIELDS);
}

/// Describes a struct by the names of its fields. They must cover all of its bytes.
macro_rules! described {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::layout::Described for $name {
            const FIELDS: &'static [$crate::layout::Field] = &[
                $($crate::layout::Field::new(
                    stringify!($field),
                    core::mem::offset_of!($name, $field),
                    |Self { $field: field, .. }| field,
                )),+
            ];
        }
        const _: () = {
            let fields = <$name as $crate::layout::Described>::FIELDS;
            let (mut bytes, mut i) = (0, 0);
            while i < fields.len() {
                bytes += fields[i].place.bytes as usize;
                i += 1;
            }
            assert!(bytes == size_of::<$name>(), "a field is not listed");
        };
    };
}

/// Defines a struct and describes it.
macro_rules! pinned {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+ }
    ) => {
        ordered! { [$(#[$meta])* #[repr(C)] pub struct $name] $({ $(#[$field_meta])* pub $field: $type })+ }
        described!($name { $($field),+ });
    };
}

/// Defines a struct with its fields in their order. (The invented next version has another order.)
#[cfg(not(feature = "next-layout"))]
macro_rules! ordered {
    ([$($head:tt)+] $({ $($field:tt)+ })+) => { $($head)+ { $($($field)+,)+ } };
}

// It needs the macros above, and has another `ordered!`.
#[cfg(feature = "next-layout")]
#[macro_use]
pub(crate) mod next;

#[cfg(test)]
mod tests;
