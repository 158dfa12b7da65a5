//! Disturbances: faults, edits by hand, marks of nodes, hosts on the segment, and Services of others.

mod begin_and_end;
mod edits;
mod hosts;
mod marks;
mod steps;
mod strangers;
mod tenants;
