//! A real Prometheus scrapes agents during a run, and then evaluates
//! every query of the dashboard and of the alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::{Value, json};
use vipward_tests::{
    agent::{PATIENCE, ROGUE, Scene, VIP, answers_to, clients_request, ip, wait_until_received},
    cluster::{Cluster, ClusterOptions, Cut, N1, N2, NodeId, ServiceSpec, scenario},
    frames::{Arp, Mac},
    kit::{tools::target_dir, wait_for},
    lan::{
        Wire,
        http::{self, PAGES},
    },
    measure::{
        chart::{self, Panel, Tile},
        prometheus::{INTERVAL, Prometheus, promtool},
    },
};

use super::{
    alerts::{alerts, name},
    dashboard::{Stat, WINDOW, queries, stats},
    documented::assert_documented,
    exposition::Exposition,
};

const PORT: u16 = 9647;
const CONTROLLERS_PORT: u16 = 9648;
/// The panels of the plot in docs/kubernetes/monitoring.md.
const DRAWN: [&str; 4] = [
    "VIPs by holder",
    "Answers a second, by holder",
    "Conflicts and offenders",
    "Time to the lease deadline",
];
/// The alert about an agent of a file. `reload::refused` reads its metric.
const OF_A_FILE: &str = "VipwardConfigRefused";
const STANDALONE: &str = "node: edge-1\nvips: [{address: 192.0.2.10}]";

/// Returns the names of Vipward's metrics in an expression, in the form of series.
fn names_in(expression: &str) -> Result<BTreeSet<String>> {
    let names = Regex::new("vipward_[a-z_]+")?;
    Ok(names.find_iter(expression).map(|found| found.as_str().to_owned()).collect())
}

/// Fails unless every series of an expression exists: a misspelled one would be empty for ever.
fn assert_known(prometheus: &Prometheus, what: &str, expression: &str) -> Result<()> {
    for name in names_in(expression)? {
        let known = prometheus.query(&format!("count(last_over_time({name}[10m]))"))?;
        assert!(!known.is_empty(), "{what}: there is no {name}");
    }
    Ok(())
}

fn expression(alert: &Value) -> Result<&str> {
    alert["expr"].as_str().context("no expression")
}

/// Returns the labels of the present results of an alert's expression.
fn labels_of(prometheus: &Prometheus, alert: &str) -> Result<Vec<Value>> {
    let alerts = alerts()?;
    let alert = alerts.iter().find(|known| known["alert"] == alert).with_context(|| format!("no {alert}"))?;
    let samples = prometheus.query(expression(alert)?)?;
    Ok(samples.into_iter().map(|sample| sample.labels).collect())
}

/// Returns the alerts whose expressions hold now.
fn holding(prometheus: &Prometheus) -> Result<BTreeSet<String>> {
    let mut holding = BTreeSet::new();
    for alert in alerts()? {
        if !prometheus.query(expression(&alert)?)?.is_empty() {
            holding.insert(name(&alert)?.to_owned());
        }
    }
    Ok(holding)
}

fn wait_until_holding(prometheus: &Prometheus, alert: &str) -> Result<()> {
    wait_for(PATIENCE, &format!("the expression of {alert} to hold"), || {
        Ok(holding(prometheus)?.contains(alert).then_some(()))
    })
}

/// Waits until no alert holds. The last scrape may be older than the present state.
fn wait_until_nothing_holds(prometheus: &Prometheus) -> Result<()> {
    let mut last = BTreeSet::new();
    let rests = wait_for(PATIENCE, "no alert to hold", || {
        last = holding(prometheus)?;
        Ok(last.is_empty().then_some(()))
    });
    rests.with_context(|| format!("{last:?} did"))
}

fn page(cluster: &Cluster, id: NodeId) -> Result<Exposition> {
    let page = cluster.page(id, "/metrics")?.good()?;
    promtool(&["check", "metrics"], Some(&page))?;
    Exposition::parse(&page)
}

/// Sends that many requests for the VIP, from the segment.
fn ask(wire: &Wire, times: usize) -> Result<()> {
    for _ in 0..times {
        // The observer's kernel answers for itself at once. The VIP's holder has answered by then.
        answers_to(wire, &clients_request(VIP), ip(2))?;
        thread::sleep(INTERVAL / 5);
    }
    Ok(())
}

fn conflict(cluster: &Cluster) -> Result<()> {
    let rogue = Wire::open(&cluster.rogue, "eth0")?;
    rogue.send(&Arp::gratuitous_request(ROGUE, VIP, Mac::ZERO).to_bytes())?;
    wait_until_received(&rogue, ip(2))
}

#[test]
fn every_panel_and_every_alert_has_what_it_is_about_in_a_cluster() -> Result<()> {
    let options =
        ClusterOptions { nodes: 2, api_in_process: true, with_controller: true, ..ClusterOptions::default() };
    scenario("scraped", options, |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64/29"]}))?;
        let targets = [(N1, PORT), (N2, PORT), (N1, CONTROLLERS_PORT)];
        let targets = targets.map(|(id, port)| SocketAddr::from((id.management_address(), port)));
        let prometheus = Prometheus::start(&cluster.member(N1)?.host, &targets)?;
        let mut story = Story::begin();
        cluster.wait_until_all_renew()?;
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let old = cluster.wait_until_held(VIP)?;
        let new = if old == N1 { N2 } else { N1 };
        wait_until_nothing_holds(&prometheus)?;
        let client = Wire::open(&cluster.client, "eth0")?;
        ask(&client, 40)?;

        story.notify("conflict");
        conflict(cluster)?;
        wait_until_holding(&prometheus, "VipwardConflict")?;
        wait_for(PATIENCE, "the warning to fire", || {
            let firing = "ALERTS{alertname=\"VipwardConflict\",severity=\"warning\",alertstate=\"firing\"}";
            Ok((!prometheus.query(firing)?.is_empty()).then_some(()))
        })?;
        story.notify("move");
        let (code, said) = cluster.vipward_move(VIP, &cluster.node_name(new))?;
        assert_eq!(code, Some(0), "{said}");
        ask(&client, 20)?;

        story.notify("kill -9");
        cluster.kill9(new)?;
        wait_until_holding(&prometheus, "VipwardAgentAbsent")?;
        cluster.wait_until_held_by(VIP, old)?;
        story.notify("started again");
        cluster.restart_agent(new)?;

        // The lease deadline of the agent that was dead has passed, too.
        wait_for(PATIENCE, "every lease deadline to be renewed", || {
            Ok((!holding(&prometheus)?.contains("VipwardLeaseDeadlineNear")).then_some(()))
        })?;
        story.notify("cut off from the API server");
        cluster.cut_off(old, Cut::Silent);
        wait_until_holding(&prometheus, "VipwardLeaseDeadlineNear")?;
        wait_for(PATIENCE, "requests without an answer to be counted", || {
            let failed = prometheus.query("vipward_api_errors_total{kind=\"deadline\"} > 0")?;
            Ok((!failed.is_empty()).then_some(()))
        })?;
        story.notify("reconnected");
        cluster.heal()?;
        cluster.wait_until_renewing(old)?;
        ask(&client, 20)?;

        for alert in alerts()? {
            if name(&alert)? != OF_A_FILE {
                assert_known(&prometheus, name(&alert)?, expression(&alert)?)?;
            }
        }
        let mut empty = BTreeMap::new();
        for (panel, query) in queries()? {
            assert_known(&prometheus, &panel, &query)?;
            let samples = prometheus.query(&query).with_context(|| panel.clone())?;
            if !samples.iter().any(|sample| sample.value.is_finite()) {
                empty.insert(query, (panel, samples));
            }
        }
        assert!(empty.is_empty(), "without data: {empty:#?}");
        check_what_was_counted(cluster, &prometheus)?;
        story.draw(&prometheus)?;

        for node in [N1, N2] {
            assert_documented(&page(cluster, node)?, &["Every agent", "Agents in a cluster"])?;
        }
        let page = cluster.controller_page(CONTROLLERS_PORT, "/metrics")?.good()?;
        promtool(&["check", "metrics"], Some(&page))?;
        assert_documented(&Exposition::parse(&page)?, &["Controller"])
    })
}

/// The events of a run, with their times.
struct Story {
    began: Instant,
    events: Vec<(f64, &'static str)>,
}

impl Story {
    fn begin() -> Self {
        Self { began: Instant::now(), events: Vec::new() }
    }

    fn notify(&mut self, what: &'static str) {
        self.events.push((self.began.elapsed().as_secs_f64(), what));
    }

    /// Draws some of the dashboard's panels over the run: `target/plots/metrics.svg`.
    fn draw(&self, prometheus: &Prometheus) -> Result<()> {
        let lasted = self.began.elapsed();
        let mut panels = Vec::new();
        for title in DRAWN {
            let query = queries()?.into_iter().find(|(panel, _)| panel == title);
            let (_, query) = query.with_context(|| format!("no panel {title}"))?;
            // The run is short, so a short window shows its events.
            let query = query.replace(WINDOW, "2s");
            let series = prometheus.range(&query, lasted, INTERVAL)?;
            ensure!(!series.is_empty(), "{title}: {query} gives nothing over the run");
            panels.push(Panel { title: title.to_owned(), label: "instance", series });
        }
        let title = "Drawn by a test from what Prometheus read of two nodes and one VIP; tiles: at the end";
        let svg = chart::draw(title, &tiles(prometheus)?, &panels, &self.events, lasted.as_secs_f64());
        let directory = target_dir().join("plots");
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("metrics.svg"), svg).context("failed to write a plot")
    }
}

/// Returns the dashboard's first row, as it is now.
fn tiles(prometheus: &Prometheus) -> Result<Vec<Tile>> {
    let stats = stats()?;
    let tile = |stat: &Stat| -> Result<Tile> {
        let values = stat.queries.iter().map(|query| {
            Ok(prometheus.query(query)?.first().with_context(|| format!("{} is empty", stat.title))?.value)
        });
        let values = values.collect::<Result<Vec<f64>>>()?;
        let words: Vec<_> = values.iter().map(|value| stat.words(*value)).collect();
        let is_good = values.first().is_some_and(|value| stat.is_good(*value));
        Ok(Tile { title: stat.title.clone(), value: words.join(" of "), is_good })
    };
    stats.iter().map(tile).collect()
}

/// Checks that the metrics have counted the events of the run, whatever the holder.
fn check_what_was_counted(cluster: &Cluster, prometheus: &Prometheus) -> Result<()> {
    let sum = |expression: &str| -> Result<f64> {
        Ok(prometheus.query(expression)?.first().with_context(|| expression.to_owned())?.value)
    };
    let epoch = f64::from(u32::try_from(cluster.epoch(VIP)?.context("no epoch")?)?);
    #[expect(clippy::float_cmp, reason = "whole numbers")]
    {
        assert_eq!(sum("max(vipward_vip_epoch)")?, epoch);
        assert_eq!(sum("sum(max_over_time(vipward_moves_total{cause=\"failover\"}[10m]))")?, 1.0);
        assert_eq!(sum("sum(max_over_time(vipward_moves_total{cause=\"handover\"}[10m]))")?, 1.0);
        assert_eq!(sum("sum(vipward_vips_to_hold)")?, 1.0);
        assert_eq!(sum("max(vipward_nodes_alive)")?, 2.0);
    }
    // In the failover, at least the lease duration passed after the last renewal that was seen.
    let gap = sum("sum(vipward_takeover_gap_seconds_sum) / sum(vipward_takeover_gap_seconds_count)")?;
    let limits = cluster.options();
    let (least, most) =
        (limits.lease.as_secs_f64(), (limits.failover_limit() + limits.renewal).as_secs_f64());
    assert!(gap > least && gap < most, "a gap of {gap} s, not between {least} and {most}");
    Ok(())
}

#[test]
fn a_standalone_agent_is_scraped_and_its_alerts_hold_when_they_should() -> Result<()> {
    let scene = Scene::new("scrapedalone")?;
    let mut agent = scene.agent(STANDALONE)?;
    let prometheus = Prometheus::start(&scene.node, &[PAGES])?;
    wait_until_nothing_holds(&prometheus)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    ask(&wire, 20)?;
    let answered = wait_for(PATIENCE, "the answers to be scraped", || {
        let samples = prometheus.query("vipward_vip_answered_total")?;
        Ok(samples.into_iter().find(|sample| sample.value >= 20.0))
    })?;
    assert_eq!(answered.labels["vip"], VIP.to_string());

    // The page has no metric of a cluster.
    let page = http::get(&scene.node, PAGES, "/metrics")?.good()?;
    assert_documented(&Exposition::parse(&page)?, &["Every agent"])?;

    agent.write_config("node: edge-1\nvips: [{address: 198.51.100.1}]")?;
    wait_until_holding(&prometheus, "VipwardVipWithoutHolder")?;
    // The labels name the host.
    let labels = json!({"job": "vipward", "instance": PAGES.to_string(), "node": "edge-1"});
    assert_eq!(labels_of(&prometheus, "VipwardVipWithoutHolder")?, [labels]);
    agent.kill9()?;
    wait_until_holding(&prometheus, "VipwardAgentAbsent")
}
