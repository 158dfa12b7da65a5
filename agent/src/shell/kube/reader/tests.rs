use super::*;

#[test]
fn pauses_grow_from_one_second_to_five_and_no_further() {
    let bounds = |failures| (pause(failures, 0.0), pause(failures, 1.0));
    let seconds = Duration::from_secs;
    assert_eq!(bounds(0), (seconds(1), seconds(2)));
    assert_eq!(bounds(1), (seconds(1), seconds(4)));
    for failures in [2, 3, 40, u32::MAX] {
        assert_eq!(bounds(failures), (seconds(1), seconds(5)), "{failures}");
    }
}

#[test]
fn trouble_says_what_is_to_be_done_about_it() {
    let refused = |code| RequestError::Status {
        code,
        reason: String::new(),
        message: "so it says".to_owned(),
        causes: Vec::new(),
        retry_after: None,
    };
    let rows = [
        (404, Resource::VirtualIps, "kubectl apply -f deploy/kubernetes/base/crd.yaml"),
        (403, Resource::Leases, "not allowed to list leases.coordination.k8s.io"),
        (401, Resource::Nodes, "does not accept our credentials"),
        (500, Resource::Services, "failed to list services: 500: so it says"),
    ];
    for (code, resource, expected) in rows {
        let problem = Problem::of(Verb::List, resource, refused(code));
        assert!(super::super::chain(&problem).contains(expected), "{problem}");
    }
}
