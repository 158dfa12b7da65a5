//! What people and the cluster do: disturbances, edits, marks, hosts, strangers.

mod disturb;
mod edits;
mod hosts;
mod marks;
mod steps;
mod strangers;
mod tenants;
