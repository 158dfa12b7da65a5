//! The nodes' service proxies, which follow endpoints late.

use std::time::Duration;

use vipward_core::{
    agent::{Input, cluster},
    delivery::{Answer, Target},
    ownership::weight,
};

use super::{Happening, World};
use crate::{machine::At, schedule::names};

/// The time after which a proxy that cannot be reached no longer counts.
pub(super) const PROXY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time by which a proxy is behind the endpoints, or later than its node, in milliseconds.
const LATE: u64 = 5_000;
/// The time in which a proxy answers.
const ANSWERS: Duration = Duration::from_millis(2);

impl World {
    pub(super) fn ask_proxy(&mut self, node: usize, target: Target) {
        let it = &self.nodes[node];
        let (life, answer) = (it.life, it.proxy.answer(target, self.now));
        self.after(ANSWERS, Happening::ProxyAnswer { node, life, target, answer });
    }

    pub(super) fn proxy_answers(&mut self, node: usize, life: u32, target: Target, answer: Answer) {
        let input = cluster::Input::Proxy(vec![(target, answer)]);
        self.incoming(node, life, Input::Cluster(input));
    }

    /// Returns by how much a proxy is late this time. It takes no number from the schedule's others.
    fn late(&self, node: usize, what: &str) -> Duration {
        let key = format!("{what} {} {}", self.plan.seed, self.now);
        let longest = if self.plan.seed.is_multiple_of(4) { 50 } else { LATE };
        Duration::from_millis(weight(names::node(node).as_str(), key.bytes()) % longest)
    }

    /// Starts a node's proxy, which takes its time.
    pub(crate) fn boot_proxy(&mut self, node: usize) {
        let up = self.now + self.late(node, "boot");
        self.nodes[node].proxy.boot(up);
    }

    /// Has each node's proxy learn where the endpoints of a VIP's Service are ready.
    pub(crate) fn proxies_learn(&mut self, vip: usize, on: Option<u8>) {
        for node in 0..self.nodes.len() {
            let is_ready = on.is_some_and(|bits| bits >> node & 1 == 1);
            let at = self.now + self.late(node, &names::vip(vip).to_string());
            self.nodes[node].proxy.learn(names::health_port(vip), is_ready, at);
        }
    }

    /// Returns the time since which a node's proxy delivers what a VIP receives there.
    pub(crate) fn proxied_since(&self, node: usize, vip: usize) -> Option<At> {
        let proxy = &self.nodes[node].proxy;
        if self.plan.has_controller() || self.desired.vips[vip].local.is_empty() {
            proxy.up_since(self.now)
        } else {
            proxy.delivers_since(names::health_port(vip), self.now)
        }
    }
}
