//! The keys of the failure detector. They are shown nowhere: neither by `Debug` nor in an error.

use std::{collections::BTreeMap, fmt};

use thiserror::Error;
use vipward_common::{SipKey, WireKey};
use vipward_core::records::KeyId;

#[cfg(test)]
mod tests;

/// Length of a key, in bytes.
const LENGTH: usize = 16;

#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Reason why an entry of the Secret is no key. It does not contain the entry's value.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    #[error("the name {name:?} of an entry is no number from 1 to 255")]
    Name { name: String },
    #[error("the value of entry {id} is not 32 hexadecimal digits")]
    Value { id: u8 },
    #[error("entry {id} has no place beside entry {other}: their numbers differ by a multiple of 4")]
    Place {
        /// The name of the entry, which is older.
        id: u8,
        other: u8,
    },
}

impl Key {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub fn sip(&self) -> SipKey {
        SipKey::from_bytes(self.0)
    }

    pub fn secret_text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end();
        // Parsing alone would take a sign.
        if text.len() != 2 * LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// The keys of a cluster, the newest last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys(Vec<(KeyId, Key)>);

impl Keys {
    /// Reads the entries of the Secret. Leaves out those that are no keys, and returns why.
    ///
    /// `newest` is the number of the newest key; without it, that is the largest one. The numbers
    /// grow, and 1 follows 255.
    pub fn read<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
        newest: Option<&str>,
    ) -> (Self, Vec<Fault>) {
        let (mut found, mut faults) = (BTreeMap::new(), Vec::new());
        for (name, value) in entries {
            match id(name) {
                None => faults.push(Fault::Name { name: name.chars().take(64).collect() }),
                Some(id) => match Key::parse(value) {
                    None => faults.push(Fault::Value { id }),
                    Some(key) => drop(found.insert(id, key)),
                },
            }
        }
        let newest = newest.and_then(id).filter(|newest| found.contains_key(newest));
        let newest = newest.or_else(|| found.last_key_value().map(|(id, _)| *id)).unwrap_or_default();
        let mut keys: Vec<(KeyId, Key)> = Vec::new();
        let age = |id: u8| if id <= newest { newest - id } else { newest + (u8::MAX - id) };
        let mut youngest_first: Vec<_> = found.into_iter().collect();
        youngest_first.sort_by_key(|(id, _)| age(*id));
        for (id, key) in youngest_first {
            match keys.iter().find(|(KeyId(other), _)| WireKey::place(*other) == WireKey::place(id)) {
                Some((KeyId(other), _)) => faults.push(Fault::Place { id, other: *other }),
                None => keys.push((KeyId(id), key)),
            }
        }
        keys.reverse();
        (Self(keys), faults)
    }

    /// Returns the numbers of the keys, the newest last.
    pub fn ids(&self) -> Vec<KeyId> {
        self.0.iter().map(|(id, _)| *id).collect()
    }

    pub fn get(&self, id: KeyId) -> Option<&Key> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, key)| key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        self.0.iter().map(|(id, key)| (*id, key))
    }

    /// Returns true if a number of these keys had another key before.
    pub fn replaces_any_of(&self, before: &Self) -> bool {
        self.iter().any(|(id, key)| before.get(id).is_some_and(|known| known != key))
    }

    /// Returns the number for the key that follows the newest one.
    pub fn next_id(&self) -> KeyId {
        match self.0.last() {
            None | Some((KeyId(u8::MAX), _)) => KeyId(1),
            Some((KeyId(newest), _)) => KeyId(newest + 1),
        }
    }
}

fn id(name: &str) -> Option<u8> {
    let is_number = !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|_| is_number)
}
