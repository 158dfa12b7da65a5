//! Decisions about log lines, Events and notes on objects: which are written, and how often.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `seldom`: repeated findings about one subject are reported once a minute: refusals, and
//!   repairs of objects.
//! - `bursts`: of many different lines at once, the first are written, and the others counted by kind.
//! - `moves`: measures moves for the metrics. It decides about no line.
//! - `unanswered`: a silence is reported once it has lasted, and by one node.
//! - `refusals`: which outcome of a request begins or ends a refusal, and its text.
//! - `reporting`: a problem is reported by one of the nodes that see it, for as long as it lasts.
//! - `claim_findings`: what an object shows is compared with the finding; nothing is remembered.
//! - `outbox`: an Event is one object, whose count is written every ten minutes at most.
//! - `events`: the Events of a process. A problem that lasts is one again before the API server forgets it.
//!
//! What lasts is visible for as long as it lasts, since the API server forgets Events after an hour:
//!
//! - A problem of a Service: by the controller. While none leads, by the holder of a VIP of the Service
//!   or the first node. What only one node's network or rights show: by that node. An Event each ten
//!   minutes (`reporting`).
//! - No node can hold a VIP: by one node, which the address determines. An Event each ten minutes (the
//!   engine), and the condition `Held`.
//! - A host claims a VIP: by its holder, or by the first candidate. An Event each ten minutes while frames
//!   arrive, and the condition `Conflict`.
//! - A holder does not answer: by the holder. The condition `Held`.
//! - A value of a `VIPPool`: by the controller. The condition `Ready`.
//! - An object of `MetalLB`'s: by the controller. An Event each ten minutes (`events`).
//! - A VIP was taken back, or cannot move: by its holder, once. It is no state.

pub mod bursts;
pub mod claim_findings;
pub mod events;
pub mod moves;
pub mod outbox;
pub mod refusals;
pub mod reporting;
pub mod seldom;
pub mod unanswered;
