//! A kubeconfig with `insecure-skip-tls-verify`.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::{fs, io, thread};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use rustls::{ServerConfig, ServerConnection};
use serde_json::json;
use tempfile::NamedTempFile;
use vipward_tests::{
    agent::{Agent, Bpffs},
    apiserver::with_certificate,
    cluster::{ClusterOptions, N1, PATIENCE, scenario},
    kit::{Process, SpawnOptions},
};

/// A self-signed certificate, and its key, which protects nothing.
const SELF_SIGNED: &[u8] = b"\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrn5qIz/N51xrgu9R
/MyChvvXtp3U5ZkDLbiEpfRxCnyhRANCAARhUBMUjuYNEBFke8YXG8R8iRyYDNqj
juEJf0z1Z7+M5htoho1XBew60etk/XeskxrEUSoD5qpsWPlka17jd+Hn
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBgzCCASmgAwIBAgIUOI7OQ2pkrICFbGdmLrckSMCXGDkwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLc2VsZi1zaWduZWQwIBcNMjYxMTIyMTAzNTIxWhgPMjEyNjEw
MjkxMDM1MjFaMBYxFDASBgNVBAMMC3NlbGYtc2lnbmVkMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEYVATFI7mDRARZHvGFxvEfIkcmAzao47hCX9M9We/jOYbaIaN
VwXsOtHrZP13rJMaxFEqA+aqbFj5ZGte43fh56NTMFEwHQYDVR0OBBYEFCqHGsgM
ZC63VClS7gfh8xCJIhLEMB8GA1UdIwQYMBaAFCqHGsgMZC63VClS7gfh8xCJIhLE
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAL6yzFHEp93ViAAX
cwLj3CYR5U1Pic2QYhMihKUE1aeOAiB6E/q2DSjCQPBMjJxBbYbGRCecRrORm418
IaJDmR0PSw==
-----END CERTIFICATE-----
";
/// Number of the agent's connections before the test reads its log.
const CONNECTIONS: usize = 5;

/// Accepts connections until the receiver is gone, each with a handshake and nothing after it.
fn shake_hands(listener: &TcpListener, config: &Arc<ServerConfig>, done: &mpsc::Sender<()>) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut connection = ServerConnection::new(Arc::clone(config))?;
        while connection.is_handshaking() {
            match connection.complete_io(&mut stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the agent does not accept the certificate"),
            }
        }
        if done.send(()).is_err() {
            return Ok(());
        }
    }
}

#[test]
fn a_certificate_that_is_not_verified_is_warned_of_once_and_not_with_each_connection() -> Result<()> {
    let options = ClusterOptions { nodes: 1, start_agents: false, ..ClusterOptions::default() };
    scenario("insecure", options, |cluster| {
        let host = &cluster.member(N1)?.host;
        let listener = host.run(|| -> io::Result<TcpListener> { TcpListener::bind("127.0.0.1:0") })?;
        let server = format!("https://{}", listener.local_addr()?);
        let (config, (done, hands)) = (with_certificate(SELF_SIGNED)?, mpsc::channel());
        thread::spawn(move || shake_hands(&listener, &config, &done));

        let kubeconfig = NamedTempFile::new()?;
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        fs::write(kubeconfig.path(), content.to_string())?;
        let bpffs = Bpffs::mount()?;
        let mut command = host.command(Agent::default_binary());
        command.args(["kubernetes", "--node-name", "n1", "--kubeconfig"]).arg(kubeconfig.path());
        command.arg("--pin-dir").arg(bpffs.pin_dir("n1"));
        let mut agent = Process::spawn(command, &SpawnOptions::default())?;
        for number in 1..=CONNECTIONS {
            hands.recv_timeout(PATIENCE).with_context(|| {
                format!("the agent made no connection {number}; it printed:{}", agent.transcript())
            })?;
        }
        agent.signal(Signal::SIGTERM)?;
        let ended = agent.wait(PATIENCE)?;
        ensure!(ended.success(), "the agent ended with {ended}: {}", agent.transcript());

        let log = agent.transcript();
        let about_it: Vec<_> = log
            .lines()
            .filter(|line| {
                line.contains("WARN")
                    && (line.contains("insecure-skip-tls-verify") || line.contains("cert bypassed"))
            })
            .collect();
        assert_eq!(about_it.len(), 1, "{about_it:#?}");
        assert!(about_it[0].contains(&server), "{}", about_it[0]);
        Ok(())
    })
}
