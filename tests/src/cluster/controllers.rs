//! The controllers of a cluster, each in a host of the management network.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{
    admin::{Kind, Object},
    install::{self, CONTROLLER, MOST_CONTROLLERS, controller_name},
    node::N1,
    options::PATIENCE,
    running::Cluster,
};
use crate::{agent::Agent, kit::Process, lan::http};

/// The namespace of `MetalLB`'s objects.
const METALLB: &str = "metallb-system";

impl Cluster {
    /// Starts a controller, as its Pod would, on the host of the first node.
    pub fn start_controller(&mut self, number: u8, args: &[&str]) -> Result<()> {
        ensure!((1..=MOST_CONTROLLERS).contains(&number), "there are {MOST_CONTROLLERS} controllers");
        ensure!(!self.controllers.contains_key(&number), "controller {number} runs already");
        let name = controller_name(number);
        let (address, namespace) = (self.forwarder.address(), self.installation.namespace.clone());
        let pod = Object::within(Kind::POD, &namespace, format!("{CONTROLLER}-{name}"));
        if self.admin().get(&pod)?.is_none() {
            let node = self.node_name(N1);
            let image = json!([{"name": "controller", "image": "none"}]);
            self.make(&json!({
                "apiVersion": Kind::POD.api_version(),
                "kind": Kind::POD.name(),
                "metadata": {"name": pod.name.clone(), "namespace": namespace},
                "spec": {"serviceAccountName": CONTROLLER, "nodeName": node, "containers": image},
            }))?;
        }
        let kubeconfig = self.api.kubeconfig(address, &namespace, CONTROLLER, &name, &pod)?;
        let file = NamedTempFile::new().context("failed to make a file")?;
        fs::write(&file, kubeconfig).context("failed to write a kubeconfig")?;
        let mut command = self.member(N1)?.host.command(Agent::default_binary());
        command.arg("controller").arg("--kubeconfig").arg(file.path());
        command.args(["--lease-namespace", &namespace]).args(args);
        // The manifests take it from the downward API.
        command.env("POD_IP", N1.management_address().to_string());
        let process = self.member(N1)?.host.spawn(command)?;
        self.controllers.insert(number, (process, file));
        Ok(())
    }

    /// Requests an endpoint of a controller, by the port that it serves on.
    pub fn controller_page(&self, port: u16, path: &str) -> Result<http::Answer> {
        http::get(&self.member(N1)?.host, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), path)
    }

    /// Returns a controller that was started.
    pub fn controller(&mut self, number: u8) -> Result<&mut Process> {
        self.controllers
            .get_mut(&number)
            .map(|(process, _)| process)
            .with_context(|| format!("controller {number} was not started"))
    }

    /// Ends a controller with SIGKILL.
    pub fn kill_controller(&mut self, number: u8) -> Result<()> {
        self.controllers
            .remove(&number)
            .map(drop)
            .with_context(|| format!("controller {number} was not started"))
    }

    /// Creates or changes a pool. It is removed with the cluster.
    pub fn put_pool(&mut self, name: &str, spec: &Value) -> Result<()> {
        self.make(&json!({
            "apiVersion": Kind::POOL.api_version(),
            "kind": Kind::POOL.name(),
            "metadata": {"name": name},
            "spec": spec,
        }))
    }

    pub fn delete_pool(&self, name: &str) -> Result<bool> {
        self.admin().delete(&Object::cluster_scoped(Kind::POOL, name))
    }

    /// Installs the definitions of `MetalLB`'s types, its namespace, and Vipward's rights there. They are
    /// removed with the cluster.
    pub fn install_metallb(&mut self) -> Result<()> {
        // In a real API server the namespace of the last scenario ends slowly.
        let namespace = Object::cluster_scoped(Kind::NAMESPACE, METALLB);
        self.admin().wait_for(PATIENCE, &namespace, "not to be ending", |found| {
            found.is_none_or(|found| found["metadata"]["deletionTimestamp"].is_null())
        })?;
        self.make(&json!({
            "apiVersion": Kind::NAMESPACE.api_version(),
            "kind": Kind::NAMESPACE.name(),
            "metadata": {"name": METALLB},
        }))?;
        for kind in [Kind::METALLB_POOL, Kind::L2_ADVERTISEMENT, Kind::BGP_PEER, Kind::L2_STATUS] {
            let definition = kind.definition();
            self.make(&definition)?;
            let object = Object::of(&definition)?;
            self.admin().wait_for(PATIENCE, &object, "to be established", install::is_established)?;
        }
        for right in self.installation.metallb_rights()? {
            self.make(&right)?;
        }
        Ok(())
    }

    /// Creates or changes an object of `MetalLB`'s. It is removed with the cluster.
    pub fn put_metallb(&mut self, kind: Kind, name: &str, spec: &Value) -> Result<()> {
        self.make(&json!({
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "metadata": {"name": name, "namespace": METALLB},
            "spec": spec,
        }))
    }

    /// Returns the node and the interfaces in each `ServiceL2Status` of a Service.
    pub fn l2_statuses(&self, service: &str) -> Result<Vec<(Value, Value)>> {
        let all = self.admin().list(Kind::L2_STATUS, Some(METALLB))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of_it = all.into_iter().map(|object| object["status"].clone());
        let of_it = of_it.filter(|status| {
            format!("{}/{}", text(&status["serviceNamespace"]), text(&status["serviceName"])) == service
        });
        Ok(of_it.map(|status| (status["node"].clone(), status["interfaces"].clone())).collect())
    }

    pub fn metallb(kind: Kind, name: &str) -> Object {
        Object::within(kind, METALLB, name)
    }

    /// Waits until the pool's status has this text at a pointer, such as `/status/free`.
    pub fn wait_for_pool(&self, name: &str, pointer: &str, text: &str) -> Result<()> {
        let object = Object::cluster_scoped(Kind::POOL, name);
        let what = format!("{pointer} to have {text:?}");
        self.admin().wait_for(PATIENCE, &object, &what, |pool| {
            pool.and_then(|pool| pool.pointer(pointer))
                .and_then(|value| value.as_str())
                .is_some_and(|value| value.contains(text))
        })?;
        Ok(())
    }
}
