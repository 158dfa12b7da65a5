//! Kubernetes without a network: the agent's client, the kubectl plugin and the manifests.
#![forbid(unsafe_code)]

mod deploy;
mod kube_shell;
mod plugin;
