//! The check of a standalone agent's file: whether the agent took what is on disk.

use super::{
    check::{known, pinned},
    facts::{Agent, Facts},
};
use crate::diagnosis::{fact::Fact, finding::Finding};

const NAME: &str = "config";

pub(super) fn check(facts: &Facts) -> Finding {
    pinned(NAME, facts, |contents| {
        if contents.is_in_cluster() {
            return Finding::not_applicable(NAME, "the VIPs are those of a cluster");
        }
        if facts.agent == Fact::Read(Agent::None) {
            return Finding::not_applicable(NAME, "no agent runs");
        }
        known(NAME, facts.file.as_ref(), |report| {
            if report.refused.is_none() {
                return Finding::green(NAME, report.to_string());
            }
            let remedy = format!(
                "mend the file, which the agent then applies; `vipward agent --check --config {}` checks it. The \
                 next start fails with it",
                report.file
            );
            Finding::yellow(NAME, report.to_string(), remedy)
        })
    })
}
