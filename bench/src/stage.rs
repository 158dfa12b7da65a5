//! Runs the object with the baselines, and fills its maps.

mod cable;
mod object;
mod pings;
mod table;

pub(crate) use self::{
    cable::{Stage, hold},
    object::{Far, Object, load, object_path},
    pings::{echo, forged, ping},
    table::{Ask, Crowd, Family, Intruder, Intruders},
};
