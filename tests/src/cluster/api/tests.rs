use kube::config::Cluster;

use super::*;

fn cluster(server: &str) -> NamedCluster {
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: Some("Y2E=".to_owned()),
        ..Cluster::default()
    };
    NamedCluster { name: "c".to_owned(), cluster: Some(cluster), ..NamedCluster::default() }
}

#[test]
fn servers_are_read_with_and_without_a_port() -> Result<()> {
    let rows = [
        ("https://192.0.2.5:6443", ("https", "192.0.2.5", 6443)),
        ("https://api.example.org", ("https", "api.example.org", 443)),
        ("http://127.0.0.1:8080/", ("http", "127.0.0.1", 8080)),
        ("https://[2001:db8::1]:6443", ("https", "2001:db8::1", 6443)),
        ("https://[2001:db8::1]", ("https", "2001:db8::1", 443)),
    ];
    for (server, (scheme, host, port)) in rows {
        assert_eq!(server_of(&cluster(server))?, (scheme.to_owned(), host.to_owned(), port), "{server}");
    }
    for wrong in ["192.0.2.5:6443", "ftp://192.0.2.5", "https://192.0.2.5/k8s/clusters/x"] {
        assert!(server_of(&cluster(wrong)).is_err(), "{wrong}");
    }
    Ok(())
}

#[test]
fn through_the_forwarder_tls_expects_the_servers_own_name() -> Result<()> {
    let forwarder = "198.51.100.1:6443".parse()?;
    let tls = through(&cluster("https://api.example.org"), forwarder)?;
    assert_eq!(tls["server"], "https://198.51.100.1:6443");
    assert_eq!(tls["tls-server-name"], "api.example.org");
    assert_eq!(tls["certificate-authority-data"], "Y2E=");
    let plain = through(&cluster("http://127.0.0.1:8080"), forwarder)?;
    assert_eq!(plain["server"], "http://198.51.100.1:6443");
    assert!(plain["tls-server-name"].is_null());
    Ok(())
}
