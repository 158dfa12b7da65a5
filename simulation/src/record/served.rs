//! What processes read of Services and pools, in brief.

use vipward_core::{pools::Change, services::Event};

pub(super) fn served(event: &Event) -> String {
    match event {
        Event::Service(record) => {
            let status: Vec<_> = record.ingress.iter().filter_map(|ingress| ingress.ip).collect();
            let annotations = &record.annotations;
            let (addresses, pool) = (annotations.addresses.as_deref(), annotations.pool.as_deref());
            let pool = pool.map(|pool| format!("one of {pool}"));
            let asks = addresses.map(str::to_owned).or(pool).unwrap_or_else(|| "any".to_owned());
            let other_type = if record.load_balancer { "" } else { ", of another type" };
            format!("sees Service {}: asks for {asks}{other_type}, status {status:?}", record.uid)
        }
        Event::ServiceGone(name) => format!("sees that Service {name} is gone"),
        Event::Slice(record) => format!("sees endpoints of {} on {:?}", record.service, record.ready),
        Event::Pool(Change::Pool(record)) => {
            let (sharing, keep) = (record.sharing, record.keep.as_deref().unwrap_or("0s"));
            format!("sees {}: {:?}, sharing {sharing:?}, keep {keep}", record.name, record.addresses)
        }
        other => format!("sees {other:?}"),
    }
}
