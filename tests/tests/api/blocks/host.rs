//! An operator installs the agent on a host without Kubernetes.

use anyhow::{Result, ensure};

use super::{homes::Home, sandbox::Sandbox};

const PAGE: &str = "docs/standalone/README.md";

#[test]
fn the_blocks_of_a_host_without_kubernetes_run() -> Result<()> {
    let mut host = Sandbox::new(Home::Host)?;
    let root = host.path("root").display().to_string();
    host.shell(
        "vipward",
        &format!("mkdir -p {root}/usr/local/bin {root}/etc/systemd/system {root}/etc/sysctl.d"),
    )?;
    let (binaries, settings) = (format!(" {root}/usr/local/bin/"), format!(" {root}/etc/"));
    // Only another host of the LAN sees who answers.
    let elsewhere = [("vipward who-has 192.0.2.10", "true")];
    let below = [(" /usr/local/bin/", binaries.as_str()), (" /etc/", settings.as_str())];
    host.run(PAGE, "sudo install -m 0755", &[&below[..], &elsewhere].concat())?;
    host.run(PAGE, "sudo install -m 0644", &below[1..])?;
    for file in [
        "usr/local/bin/vipward",
        "etc/vipward/vipward.yaml",
        "etc/systemd/system/vipward.service",
        "etc/sysctl.d/90-vipward.conf",
    ] {
        ensure!(host.path("root").join(file).is_file(), "{file} was not installed");
    }
    host.finish()
}
