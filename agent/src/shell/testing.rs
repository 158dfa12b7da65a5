//! A network namespace for one test, and what happens in it.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use nix::sched::{CloneFlags, unshare};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth, new_connection};
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `test` on its own thread, after that has left the namespaces named by `flags`. The new
/// namespaces end with the thread.
pub(crate) fn in_namespaces(flags: CloneFlags, test: impl FnOnce() + Send + 'static) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test makes namespaces and needs root: run `cargo xtask test`, or the test binary with sudo"
    );
    let thread = std::thread::spawn(move || {
        unshare(flags).expect("namespaces can be unshared");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `test` in its own network namespace, and fails if it does not end in time.
pub(crate) fn in_network<F: Future<Output = ()>>(test: impl FnOnce(Lan) -> F + Send + 'static) {
    in_namespaces(CloneFlags::CLONE_NEWNET, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let ended = runtime.block_on(async {
            let (connection, handle, _) = new_connection().expect("a netlink socket");
            tokio::spawn(connection);
            timeout(DEADLINE, test(Lan { handle })).await
        });
        ended.expect("the test ends before its deadline");
    });
}

/// Access of a test to its network namespace, through the library's
/// rtnetlink handle instead of the agent's.
#[derive(Clone)]
pub(crate) struct Lan {
    pub(crate) handle: Handle,
}

impl Lan {
    pub(crate) async fn veth(&self, name: &str, peer: &str) {
        self.handle.link().add(LinkVeth::new(name, peer).build()).execute().await.expect("a veth pair");
    }

    pub(crate) async fn bridge(&self, name: &str) {
        self.handle.link().add(LinkBridge::new(name).build()).execute().await.expect("a bridge");
    }

    pub(crate) async fn link(&self, name: &str) -> LinkMessage {
        let mut links = self.handle.link().get().match_name(name.to_owned()).execute();
        links.try_next().await.expect("the link can be looked up").expect("the link exists")
    }

    pub(crate) async fn index(&self, name: &str) -> u32 {
        self.link(name).await.header.index
    }

    pub(crate) async fn set(&self, link: LinkMessage) {
        self.handle.link().set(link).execute().await.expect("the link can be set");
    }

    pub(crate) async fn up(&self, name: &str) {
        let index = self.index(name).await;
        self.set(LinkUnspec::new_with_index(index).up().build()).await;
    }

    pub(crate) async fn down(&self, name: &str) {
        let index = self.index(name).await;
        self.set(LinkUnspec::new_with_index(index).down().build()).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let index = self.index(name).await;
        self.handle.link().del(index).execute().await.expect("the link can be deleted");
    }

    /// Adds an address such as `192.0.2.1/24`.
    pub(crate) async fn address(&self, name: &str, net: &str) {
        let net: ipnet::IpNet = net.parse().expect("an address");
        let index = self.index(name).await;
        let add = self.handle.address().add(index, net.addr(), net.prefix_len());
        add.execute().await.expect("the address can be added");
    }
}

/// A directory of one test. It is removed with its contents.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vipward-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A panic here would hide the first one, which ended the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
