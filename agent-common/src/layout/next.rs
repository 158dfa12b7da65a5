//! An invented next version, for the tests of upgrade and rollback (`next-layout`). The structs that
//! `pinned!` defines have their fields in reverse, a peer has another field, the policy is wider,
//! and there is another pinned map.

use bytemuck::{Pod, Zeroable};

/// Defines a struct with its fields in reverse.
macro_rules! ordered {
    ([$($head:tt)+] $($fields:tt)+) => { reversed! { [$($head)+] [] $($fields)+ } };
}
macro_rules! reversed {
    ([$($head:tt)+] [$($done:tt)*]) => { $($head)+ { $($done)* } };
    ([$($head:tt)+] [$($done:tt)*] { $($field:tt)+ } $($rest:tt)*) => {
        reversed! { [$($head)+] [$($field)+, $($done)*] $($rest)* }
    };
}

pinned! {
    /// The value of `peers`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct Peer {
        /// The time when the agent learnt of the peer (`CLOCK_MONOTONIC`).
        pub since_ns: u64,
        /// A field that the other version lacks.
        pub last_ns: u64,
    }
}

pinned! {
    /// The value of `beside`, a map that the other version lacks.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct Beside {
        /// A number that only tests write.
        pub number: u64,
    }
}
