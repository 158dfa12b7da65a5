//! Vipward's agent: keeps the XDP program's maps, the announcements, the API server and the
//! operator informed of what [`vipward_core`] decides.

pub mod cli;
pub mod shell;
