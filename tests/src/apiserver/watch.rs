//! A watch: what happened since a version, and then what happens, as lines of JSON.
//!
//! A watch is pulled by its connection. It waits between two lines only, and nothing is lost when it is dropped:
//! what it has not delivered is still in the history of the table.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::answer::Call;
use super::refusal::Refusal;
use super::request::Action;
use super::resource::Resource;
use super::selector::Selector;
use super::shared::Shared;
use super::stats::Delivered;
use super::store::{Change, Object};

/// Changes that are looked at in one go.
const BATCH: usize = 256;

/// Objects at the beginning of a watch that are sent in one go.
const INITIAL_BATCH: usize = 256;

/// One watch of one client.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    user: String,
    action: Action,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    initial: VecDeque<Arc<Object>>,
    /// A bookmark says when the initial objects are complete.
    marks_initial: bool,
    cursor: u64,
    /// Why it ends as soon as it has begun.
    refusal: Option<Refusal>,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    is_over: bool,
    written: watch::Receiver<u64>,
    stalls: watch::Receiver<u64>,
}

/// How a watch begins.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) namespace: Option<String>,
    pub(super) selector: Selector,
    pub(super) from: u64,
    pub(super) initial: Vec<Arc<Object>>,
    pub(super) marks_initial: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
}

impl Watch {
    pub(super) fn new(call: &Call<'_>, beginning: Beginning) -> Self {
        let now = Instant::now();
        Self {
            next_bookmark: now + call.shared.options.bookmark_interval,
            written: call.resource.table.subscribe(),
            stalls: call.shared.troubles.stalls(),
            shared: Arc::clone(call.shared),
            user: call.user.name.clone(),
            action: call.action.clone(),
            resource: Arc::clone(&call.resource),
            refusal: None,
            namespace: beginning.namespace,
            selector: beginning.selector,
            initial: beginning.initial.into(),
            marks_initial: beginning.marks_initial,
            cursor: beginning.from,
            bookmarks: beginning.bookmarks,
            end: now + beginning.timeout,
            is_over: false,
        }
    }

    /// Ends it with `refusal`.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
    }

    /// The next lines; none when the watch is over.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            self.stalls.borrow_and_update();
            if self.is_stalled() {
                if self.stalls.changed().await.is_err() {
                    return None;
                }
                continue;
            }
            if let Some(lines) = self.ready() {
                return Some(lines);
            }
            // Both ends are kept by this watch, so that neither channel closes.
            tokio::select! {
                _ = self.written.changed() => {}
                _ = self.stalls.changed() => {}
                () = sleep_until(self.next_bookmark), if self.bookmarks => {}
                () = sleep_until(self.end) => {}
            }
        }
    }

    fn is_stalled(&self) -> bool {
        self.shared.troubles.is_stalled(&self.user, &self.action)
            || self.shared.connections.is_silent(&self.user)
    }

    /// What can be sent without waiting.
    fn ready(&mut self) -> Option<Bytes> {
        let mut lines = Lines::new(&self.resource);
        if let Some(refusal) = self.refusal.take() {
            lines.error(&refusal);
            self.is_over = true;
        } else if !self.initial.is_empty() {
            let count = self.initial.len().min(INITIAL_BATCH);
            for object in self.initial.drain(..count) {
                lines.event("ADDED", &object);
            }
        } else if self.marks_initial {
            self.marks_initial = false;
            lines.bookmark(self.cursor, true);
        } else {
            self.changes(&mut lines);
        }
        let now = Instant::now();
        let is_idle = lines.text.is_empty();
        if is_idle && self.bookmarks && (now >= self.next_bookmark || now >= self.end) {
            lines.bookmark(self.cursor, false);
        }
        if now >= self.next_bookmark {
            self.next_bookmark = now + self.shared.options.bookmark_interval;
        }
        if is_idle && now >= self.end {
            self.is_over = true;
        }
        if lines.text.is_empty() {
            return None;
        }
        lines.delivered.bytes = lines.text.len() as u64;
        self.shared.counters.delivery(&self.user, &self.resource.plural, lines.delivered);
        Some(lines.text.freeze())
    }

    fn changes(&mut self, lines: &mut Lines) {
        loop {
            self.written.borrow_and_update();
            match self.resource.table.changes_after(self.cursor, BATCH) {
                Ok((changes, until)) => {
                    for change in &changes {
                        self.change(change, lines);
                    }
                    self.cursor = until;
                    if changes.len() < BATCH || !lines.text.is_empty() {
                        return;
                    }
                }
                Err(refusal) => {
                    lines.error(&refusal);
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    fn change(&self, change: &Change, lines: &mut Lines) {
        if self.namespace.as_ref().is_some_and(|namespace| *namespace != change.key.namespace) {
            return;
        }
        let selects = |object: &Object| self.selector.is_everything() || self.selector.matches(&object.value);
        let was = change.before.as_ref().is_some_and(|object| selects(object));
        let is = !change.gone && selects(&change.now);
        match (was, is) {
            (false, false) => {}
            (false, true) => lines.event("ADDED", &change.now),
            (true, true) => lines.event("MODIFIED", &change.now),
            (true, false) if change.gone => lines.event("DELETED", &change.now),
            (true, false) => {
                // It is still there, but not for this watch: it sees the end of what it knew.
                if let Some(before) = &change.before {
                    lines.event("DELETED", &Object::new(before.value.clone(), change.version));
                }
            }
        }
    }
}

/// Lines that are being written.
struct Lines {
    head: String,
    resource: (String, String),
    text: BytesMut,
    delivered: Delivered,
}

impl Lines {
    fn new(resource: &Resource) -> Self {
        Self {
            head: resource.head(),
            resource: (resource.api_version(), resource.kind.clone()),
            text: BytesMut::new(),
            delivered: Delivered::default(),
        }
    }

    fn event(&mut self, kind: &str, object: &Object) {
        self.text.reserve(object.rest.len() + self.head.len() + 48);
        self.text.put_slice(b"{\"type\":\"");
        self.text.put_slice(kind.as_bytes());
        self.text.put_slice(b"\",\"object\":");
        self.text.put_slice(self.head.as_bytes());
        self.text.put_slice(&object.rest);
        self.text.put_slice(b"}\n");
        self.delivered.objects += 1;
    }

    fn bookmark(&mut self, version: u64, ends_initial: bool) {
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (version, kind) = &self.resource;
        let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        self.line(&json!({"type": "BOOKMARK", "object": object}));
        self.delivered.bookmarks += 1;
    }

    fn error(&mut self, refusal: &Refusal) {
        self.line(&json!({"type": "ERROR", "object": refusal.status()}));
    }

    fn line(&mut self, value: &serde_json::Value) {
        writeln!(self.text, "{value}").expect("invariant: memory can be written to");
    }
}
