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
//! |trouble|reported by|and again|
//! |---|---|---|
//! |a problem of a Service|the controller; while none leads, the holder or the first node; what only one node's network or token shows: that node|an Event each 10 minutes (`reporting`)|
//! |no node can hold a VIP|one node, by the VIP's address|an Event each 10 minutes (the engine), the condition `Held`|
//! |a host claims a VIP|its holder, or the first candidate|an Event each 10 minutes while frames arrive, the condition `Conflict`|
//! |a holder does not answer|the holder|the condition `Held`|
//! |a value of a `VIPPool`|the controller|the condition `Ready`|
//! |an object of `MetalLB`'s|the controller|an Event each 10 minutes (`events`)|
//! |a VIP was taken back, or cannot move|its holder|once: it is no state|

pub mod bursts;
pub mod claim_findings;
pub mod events;
pub mod moves;
pub mod outbox;
pub mod refusals;
pub mod reporting;
pub mod seldom;
pub mod unanswered;
