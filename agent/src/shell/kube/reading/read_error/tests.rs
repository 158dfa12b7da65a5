use std::time::Duration;

use super::*;
use crate::shell::{
    kube::{MetalLb, testing::refused},
    logging::errors::chain,
};

#[test]
fn trouble_that_comes_in_several_ways_is_one_trouble() {
    let failed = |source| ReadError::of(Verb::Watch, Resource::Leases, source);
    let late = || failed(RequestError::Deadline { server: String::new(), limit: Duration::from_secs(3) });
    let status = |code| failed(refused(code, "", ""));
    let unknown = || failed(RequestError::TooLong { limit_bytes: 1 });
    let rows = [
        (late(), unknown(), true, "no answer, and none that is one"),
        (late(), status(500), false, "no answer, and an answer"),
        (status(429), status(429), true, "the same answer"),
        (status(429), status(500), false, "another answer"),
        (status(403), status(403), true, "still forbidden"),
        (status(403), status(401), false, "forbidden, and not known"),
        (late(), status(403), false, "away, and back without our role"),
    ];
    for (one, other, expected, description) in rows {
        assert_eq!(one.is_like(&other), expected, "{description}");
        assert_eq!(other.is_like(&one), expected, "{description}, the other way round");
    }
}

#[test]
fn trouble_says_what_is_to_be_done_about_it() {
    let rows = [
        (404, Resource::VirtualIps, "kubectl apply -f deploy/kubernetes/base/crd.yaml"),
        (403, Resource::Leases, "not allowed to list leases.coordination.k8s.io"),
        (403, Resource::MetalLb(MetalLb::IpAddressPools), "overlays/metallb/rbac.yaml"),
        (401, Resource::Nodes, "does not accept the credentials"),
        (500, Resource::Services, "failed to list services: 500: so it says"),
    ];
    for (code, resource, expected) in rows {
        let error = ReadError::of(Verb::List, resource, refused(code, "", "so it says"));
        assert!(chain(&error).contains(expected), "{error}");
    }
}
