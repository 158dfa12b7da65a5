//! Namespaces: their labels select Services, and their consent lets others share VIPs.

use std::{collections::BTreeSet, sync::Arc};

use super::Index;
use crate::records::ServiceName;

impl Index {
    pub(super) fn put_namespace(&mut self, name: &Arc<str>, matches: bool) {
        if self.namespaces.contains(name) == matches {
            return;
        }
        let inside: Vec<_> = self.services_in(name).cloned().collect();
        self.touched.services.extend(inside);
        if matches {
            self.namespaces.insert(Arc::clone(name));
        } else {
            self.namespaces.remove(name);
        }
    }

    pub(super) fn put_consents(&mut self, name: Arc<str>, share_with: BTreeSet<Arc<str>>) {
        if self.consents.get(&name).unwrap_or(&BTreeSet::new()) == &share_with {
            return;
        }
        let inside: Vec<_> = self.services_in(&name).cloned().collect();
        self.touch_vips_of(&inside);
        if share_with.is_empty() {
            self.consents.remove(&name);
        } else {
            self.consents.insert(name, share_with);
        }
    }

    fn services_in<'a>(&'a self, namespace: &'a Arc<str>) -> impl Iterator<Item = &'a ServiceName> {
        let first = ServiceName::before(namespace);
        let from = self.entries.range(first..).map(|(service, _)| service);
        from.take_while(move |service| service.namespace == *namespace)
    }
}
