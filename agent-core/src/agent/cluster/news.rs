//! Events about VIPs and Services.

use std::net::IpAddr;

use super::Cluster;
use crate::{
    agent::effect,
    ownership::Notice,
    records::ServiceName,
    reports::outbox::{self, Message, Object, Reason},
};

impl Cluster {
    /// Writes the Events about a notice of the engine.
    pub(super) fn report_notice(&mut self, notice: &Notice) {
        if let Some(outbox::News { vip, services, reason, note }) =
            outbox::News::of(notice, &self.settings.node)
        {
            self.post((vip, services), reason, &note);
        }
    }

    /// Writes an Event about a VIP, and one about each Service that wants it.
    pub(super) fn post(&mut self, (vip, services): (IpAddr, &[ServiceName]), reason: Reason, note: &str) {
        let uid = self.engine.claim(vip).and_then(|claim| claim.uid.clone());
        let claim = (Object::VirtualIp(vip), uid);
        let index = self.services.index();
        let wanting = services.iter().map(|name| (Object::Service(name.clone()), index.uid(name).cloned()));
        let messages: Vec<_> = [claim]
            .into_iter()
            .chain(wanting)
            .map(|(object, uid)| Message::new(object, uid, reason, note).about(vip))
            .collect();
        for message in messages {
            self.emit(effect::Cluster::Post(Box::new(message)));
        }
    }

    pub(super) fn write_event(&mut self, vip: IpAddr, reason: Reason, note: &str) {
        let services = self.engine.services_of(vip).to_vec();
        self.post((vip, &services), reason, note);
    }
}
