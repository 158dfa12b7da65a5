//! Records of the cluster's objects, Leases, claim objects and Nodes, and the messages between two
//! rooms.
//!
//! A record is the state that this node last *read*, so it may be behind. Its
//! times are never compared with this node's clock.

mod claim;
mod demand;
mod labels;
mod lease;
mod names;
mod node;
pub(crate) mod offer;
pub(crate) mod pool_kind;
mod pool_policy;
mod port;
mod proxy;
mod reservation;
mod selector;

pub use self::{
    claim::{ClaimNote, ClaimRecord, ClaimState, Holder, NoAnswer, Shows},
    demand::{Demand, Local, Reach},
    labels::{Labels, ServiceLabels},
    lease::{
        InterfaceNames, LeaseRecord, MOST_ADDRESSES, MOST_ENDED, MOST_SUBNETS, NodeInterface, Room, Unreached,
    },
    names::{Epoch, NodeName, ServiceName, Session, Version, object_name, vip_named},
    node::NodeRecord,
    offer::{KeyId, MOST_INVITED, Mode, Offer, PROTO, Wid},
    pool_kind::{PoolKind, Shown},
    pool_policy::{Allowance, PoolPolicy, Preference},
    port::{Port, Protocol},
    proxy::{Delivers, HealthPort, MOST_PORTS, Proxy},
    reservation::Reservation,
    selector::{Selector, SelectorError},
};
