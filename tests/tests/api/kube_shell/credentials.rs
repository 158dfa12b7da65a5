//! Credentials in files that a kubeconfig names.

use tokio::time::{Instant, sleep};
use vipward_tests::apiserver::{FIRST, SECOND, certificate_in};

use super::*;

/// Returns the number of the credentials that new connections use, when it is no longer `old`.
async fn number_after(server: &Server, old: u64) -> Result<u64> {
    let end = Instant::now() + PATIENCE;
    loop {
        let number = server.credentials();
        if number != old || end < Instant::now() {
            return Ok(number);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_client_certificate_is_replaced_when_its_key_is_too() -> Result<()> {
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name);
    let key = |pem: &str| pem[..pem.len() - certificate_in(pem).len()].to_owned();
    fs::write(path("certificate"), certificate_in(FIRST))?;
    fs::write(path("key"), key(FIRST))?;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.99:6443"}}],
        "users": [{"name": "u", "user": {"client-certificate": "certificate", "client-key": "key"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(path("kubeconfig"), kubeconfig.to_string())?;
    let access = Access { kubeconfig: Some(path("kubeconfig")), ..Access::default() };
    let server = Server::find(&access, LIMITS).await?;
    assert_eq!(server.credentials(), 0);

    fs::write(path("certificate"), certificate_in(SECOND))?;
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(server.credentials(), 0, "a certificate without its key is not used");
    fs::write(path("key"), key(SECOND))?;
    assert_eq!(number_after(&server, 0).await?, 1);
    Ok(())
}
