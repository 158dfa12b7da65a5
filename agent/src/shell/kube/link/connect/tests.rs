use std::fs;

use super::*;
use crate::shell::{kube::testing::LIMITS, logging::errors::chain};

const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: 'http://192.0.2.99:6443'}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: broken, context: {cluster: none, user: u}}]
";

async fn find(text: &str, context: Option<&str>) -> Result<Server, ConnectError> {
    let directory = Directory::new(text);
    let access = Access {
        kubeconfig: Some(directory.0.join("kubeconfig")),
        context: context.map(ToOwned::to_owned),
        ..Access::default()
    };
    Server::find(&access, LIMITS).await
}

struct Directory(PathBuf);

impl Directory {
    fn new(kubeconfig: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vipward-connect-{:016x}", fastrand::u64(..)));
        fs::create_dir(&path).expect("a directory");
        fs::write(path.join("kubeconfig"), kubeconfig).expect("a file");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_kubeconfig_says_where_the_api_server_is() {
    let server = find(GOOD, None).await.expect("it is good");
    assert_eq!(server.url(), "http://192.0.2.99:6443");
    find(GOOD, Some("one")).await.expect("the context is there");
}

#[test]
fn the_url_of_the_api_server_has_its_port() {
    for (given, expected) in [
        ("https://10.96.0.1", "https://10.96.0.1:443"),
        ("https://10.96.0.1:6443/", "https://10.96.0.1:6443"),
        ("http://api.example.org/", "http://api.example.org:80"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]:443"),
        ("https://rancher.example.org/k8s/clusters/c-1/", "https://rancher.example.org:443/k8s/clusters/c-1"),
    ] {
        let server = Server::with_config(Config::new(given.parse().expect("a URL")), LIMITS);
        assert_eq!(server.url(), expected, "{given}");
    }
}

#[test]
fn endpoints_are_used_if_their_certificates_are_verified() {
    let rows = [
        ("https://10.96.0.1", false, true, "the Service"),
        ("http://127.0.0.1:8001", false, false, "`kubectl proxy`"),
        ("https://192.0.2.1", true, false, "any certificate"),
        ("https://rancher.example.org/k8s/clusters/c-1", false, false, "a proxy with a path"),
    ];
    for (url, accept_invalid_certs, expected, what) in rows {
        let mut config = Config::new(url.parse().expect("a URL"));
        config.accept_invalid_certs = accept_invalid_certs;
        assert_eq!(has_direct(&config), expected, "{what}");
    }
}

#[tokio::test]
async fn a_fault_of_a_kubeconfig_names_the_file() {
    let proxied = GOOD.replace("server:", "proxy-url: 'http://192.0.2.98:3128', server:");
    let bad_ca = GOOD.replace("server: 'http", "certificate-authority: /nowhere/ca.pem, server: 'https");
    let rows = [
        ("{", None, "failed to read the kubeconfig", "no YAML"),
        ("a: [}", None, "failed to read the kubeconfig", "no YAML either"),
        (GOOD, Some("two"), "context \"two\"", "no such context"),
        (GOOD, Some("broken"), "context \"broken\"", "a context without a cluster"),
        (&GOOD.replace("current-context: one", ""), None, "the current context", "no current context"),
        (&proxied, None, "http://192.0.2.98:3128", "a proxy"),
        (&bad_ca, None, "/nowhere/ca.pem", "a file that it names"),
    ];
    for (text, context, expected, description) in rows {
        let error = find(text, context).await.expect_err(description);
        assert!(chain(&error).contains(expected), "{description}: {}", chain(&error));
    }
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let access = Access { kubeconfig: Some("/nowhere/kubeconfig".into()), ..Access::default() };
    let error = Server::find(&access, LIMITS).await.expect_err("there is none");
    assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");
}

#[tokio::test]
async fn a_context_without_a_kubeconfig_is_not_passed_over() {
    let access = Access { kubeconfig: None, context: Some("two".to_owned()), ..Access::default() };
    let error = Server::find(&access, LIMITS).await.expect_err("there is none");
    assert!(
        error.to_string().contains("the context \"two\"") && error.to_string().contains("--kubeconfig"),
        "{error}"
    );
}

#[test]
fn every_deadline_is_below_the_lease_duration_and_a_renewal_can_be_tried_twice() {
    for lease_ms in [2_000, 4_000, 15_000] {
        let limits = Limits { lease: Duration::from_millis(lease_ms), margin: Duration::from_millis(500) };
        assert!(limits.request() < limits.lease);
        assert!(limits.renewal() * 2 <= limits.lease.saturating_sub(limits.margin));
        assert!(limits.silence() < limits.lease);
    }
}
