//! Watches: the changes since a version, and then new changes, as lines of JSON.
//!
//! The connection pulls the lines of a watch. The watch waits only between two lines, and a drop
//! loses nothing: undelivered changes are still in the history of the table.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{
    call::Call,
    refusal::Refusal,
    registry::{
        resource::Resource,
        store::{Change, Key, Object},
    },
    request::Action,
    shared::Shared,
    stats::Delivered,
};

/// The largest number of changes in one delivery.
const BATCH: usize = 256;

#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    user: String,
    action: Action,
    resource: Arc<Resource>,
    name: Option<String>,
    /// The version up to which all changes have been delivered.
    cursor: u64,
    has_begun: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    is_over: bool,
    written: watch::Receiver<u64>,
    stalls: watch::Receiver<u64>,
}

impl Watch {
    /// Makes a watch that continues from the version `from`, of one object if a name is given.
    pub(super) fn new(call: &Call<'_>, from: u64, name: Option<String>, timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            next_bookmark: now + call.shared.options.bookmark_interval,
            written: call.resource.table.subscribe(),
            stalls: call.shared.troubles.stalls(),
            shared: Arc::clone(call.shared),
            user: call.user.name.clone(),
            action: call.action.clone(),
            resource: Arc::clone(&call.resource),
            name,
            cursor: from,
            has_begun: false,
            bookmarks: call.parameters.flag("allowWatchBookmarks"),
            end: now + timeout,
            is_over: false,
        }
    }

    /// Returns the next lines, or `None` at the end of the watch.
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
            // The watch keeps the senders of both channels, so that neither closes.
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

    /// Returns the lines that can be sent without waiting.
    fn ready(&mut self) -> Option<Bytes> {
        let mut lines = Lines::new(&self.resource);
        self.written.borrow_and_update();
        if let Err(refusal) = self.changes(&mut lines) {
            // A watch that comes too late gets the refusal in its stream, not in its answer.
            lines.error(&refusal);
            self.is_over = true;
        }
        let now = Instant::now();
        let is_idle = lines.text.is_empty();
        let is_due = now >= self.next_bookmark || now >= self.end;
        // A watch from a version in the future sends no bookmark.
        if is_idle && self.bookmarks && is_due && self.cursor <= self.resource.table.version() {
            lines.bookmark(self.cursor);
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

    fn changes(&mut self, lines: &mut Lines) -> Result<(), Refusal> {
        if !self.has_begun {
            self.has_begun = true;
            self.resource.table.check_start(self.cursor)?;
        }
        loop {
            let (changes, until) = self.resource.table.changes_after(self.cursor, BATCH)?;
            for change in changes.iter().filter(|change| self.is_about(&change.key)) {
                let kind = match (&change.before, change.gone) {
                    (_, true) => "DELETED",
                    (None, false) => "ADDED",
                    (Some(_), false) => "MODIFIED",
                };
                lines.event(kind, change);
            }
            self.cursor = until;
            if changes.len() < BATCH || !lines.text.is_empty() {
                return Ok(());
            }
        }
    }

    fn is_about(&self, key: &Key) -> bool {
        self.action.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
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

    fn event(&mut self, kind: &str, change: &Change) {
        let object: &Object = &change.now;
        self.text.reserve(object.rest.len() + self.head.len() + 48);
        self.text.put_slice(b"{\"type\":\"");
        self.text.put_slice(kind.as_bytes());
        self.text.put_slice(b"\",\"object\":");
        self.text.put_slice(self.head.as_bytes());
        self.text.put_slice(&object.rest);
        self.text.put_slice(b"}\n");
        self.delivered.objects += 1;
    }

    fn bookmark(&mut self, version: u64) {
        let metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        let (version, kind) = &self.resource;
        let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        self.line(&json!({"type": "BOOKMARK", "object": object}));
        self.delivered.bookmarks += 1;
    }

    fn error(&mut self, refusal: &Refusal) {
        self.line(&json!({"type": "ERROR", "object": refusal.status(&refusal.to_string())}));
    }

    fn line(&mut self, value: &serde_json::Value) {
        writeln!(self.text, "{value}").expect("invariant: memory can be written to");
    }
}
