//! Ownership: which VIPs this node holds, agreed with the other nodes through the API server alone.
//!
//! A pure engine: what was read, written, heard on the wire and configured comes in as [`Event`]s with the time, and
//! what is to be done goes out as [`Command`]s, to be carried out in their order. It never waits: what it asks for comes
//! back as an event.
//!
//! docs/OWNERSHIP.md has the rules, and why they are safe.

mod types;

pub use self::types::{
    ClaimWrite, Command, Demand, Disqualified, Entry, Event, Expected, Fenced, Found, FoundEntry, LeaseWrite,
    Notice, Outcome, Settings, StopReason, Wire,
};
