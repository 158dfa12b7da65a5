//! Kubernetes: the agent's client, the kubectl plugin, the manifests, and the commands of the pages.
#![forbid(unsafe_code)]

mod blocks;
mod deploy;
mod kube_shell;
mod plugin;
