//! The alerts: Prometheus can load them, they fire when they
//! should, and both files have the same ones.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::measure::prometheus::promtool;

use super::{in_checkout, read, yaml};

pub(crate) const RULES: &str = "deploy/prometheus/rules.yaml";
const RULES_OF_THE_OPERATOR: &str = "deploy/prometheus/prometheusrule.yaml";
/// Where the rules say that the pages are; users put their own address there.
const PAGES: &str = "https://pages.example.com/vipward/";
const RULE_TESTS: &str = "deploy/prometheus/rules_test.yaml";

/// Returns the rules of the file, each an alert.
pub(crate) fn alerts() -> Result<Vec<Value>> {
    let rules = yaml(RULES)?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let alerts: Option<Vec<_>> = groups.iter().map(|group| group["rules"].as_array().cloned()).collect();
    Ok(alerts.context("a group without rules")?.into_iter().flatten().collect())
}

pub(crate) fn name(alert: &Value) -> Result<&str> {
    alert["alert"].as_str().with_context(|| format!("no alert: {alert}"))
}

fn path(file: &str) -> Result<String> {
    Ok(in_checkout(file).to_str().context("a path that is no text")?.to_owned())
}

#[test]
fn promtool_takes_the_rules_and_their_tests_pass() -> Result<()> {
    let checked = promtool(&["check", "rules", &path(RULES)?], None)?;
    assert!(checked.contains(&format!("{} rules found", alerts()?.len())), "{checked}");
    promtool(&["test", "rules", &path(RULE_TESTS)?], None).map(drop)
}

/// Checks that promtool's tests of the alerts can fail.
#[test]
fn every_alert_is_tested_to_fire_and_not_to_fire() -> Result<()> {
    let tests = yaml(RULE_TESTS)?;
    let (mut fires, mut rests) = (BTreeSet::new(), BTreeSet::new());
    for test in tests["tests"].as_array().context("no tests")? {
        for case in test["alert_rule_test"].as_array().context("a test without a case")? {
            let alert = case["alertname"].as_str().context("a case without an alert")?.to_owned();
            let expected = case["exp_alerts"].as_array().map_or(0, Vec::len);
            if expected > 0 {
                fires.insert(alert)
            } else {
                rests.insert(alert)
            };
        }
    }
    let alerts = alerts()?;
    let all: BTreeSet<String> =
        alerts.iter().map(|alert| Ok(name(alert)?.to_owned())).collect::<Result<_>>()?;
    assert_eq!((&fires, &rests), (&all, &all));
    Ok(())
}

#[test]
fn the_operators_rules_are_the_same() -> Result<()> {
    let object = yaml(RULES_OF_THE_OPERATOR)?;
    assert_eq!(
        (&object["apiVersion"], &object["kind"]),
        (&"monitoring.coreos.com/v1".into(), &"PrometheusRule".into())
    );
    assert_eq!(object["spec"], yaml(RULES)?);
    Ok(())
}

#[test]
fn every_alert_says_what_is_wrong_and_is_explained() -> Result<()> {
    let page = read("docs/kubernetes/monitoring.md")?;
    for alert in alerts()? {
        let name = name(&alert)?;
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning"].contains(&severity), "{name} is {severity:?}");
        for annotation in ["summary", "description"] {
            let text = alert["annotations"][annotation].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{name} has no {annotation}");
        }
        assert!(
            page.contains(&format!("|`{name}`|{severity}|")),
            "{name} is not explained in docs/kubernetes/monitoring.md"
        );
    }
    Ok(())
}

/// Returns the section of a page whose heading has this anchor.
fn section<'a>(page: &'a str, anchor: &str) -> Option<&'a str> {
    let level = |line: &str| line.bytes().take_while(|byte| *byte == b'#').count();
    let kept = |c: &char| c.is_alphanumeric() || " -".contains(*c);
    let named = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(kept).collect::<String>().replace(' ', "-") == anchor
    };
    let heading = page.lines().find(|line| level(line) > 0 && named(line))?;
    let begins = page.find(heading)?;
    let rest = &page[begins + heading.len()..];
    let ends = rest.match_indices("\n#").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| level(&rest[at + 1..]) <= level(heading));
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[test]
fn a_runbooks_address_leads_to_a_section_that_names_the_alert() -> Result<()> {
    for alert in alerts()? {
        let name = name(&alert)?;
        let url = alert["annotations"]["runbook_url"].as_str().with_context(|| format!("{name} has none"))?;
        let path = url.strip_prefix(PAGES).with_context(|| format!("{name}: {url} is not below {PAGES}"))?;
        let (path, anchor) = path.split_once(".html#").with_context(|| format!("{name}: {url}"))?;
        let page = read(&format!("{path}.md"))?;
        let section = section(&page, anchor).with_context(|| format!("{path}.md has no #{anchor}"))?;
        assert!(section.contains(&format!("`{name}`")), "{path}.md#{anchor} does not name {name}");
    }
    Ok(())
}

/// Checks that the monitors' selectors fit the manifests.
#[test]
fn the_pod_monitors_find_the_agents_and_the_controllers() -> Result<()> {
    let daemonset = yaml("deploy/kubernetes/base/daemonset.yaml")?;
    assert_found(&yaml("deploy/prometheus/podmonitor.yaml")?, &daemonset, "vipward")?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&read("deploy/kubernetes/base/controller.yaml")?)?;
    let deployment = objects.first().context("no object")?;
    assert_found(&yaml("deploy/prometheus/podmonitor-controller.yaml")?, deployment, "vipward-controller")
}

fn assert_found(monitor: &Value, workload: &Value, job: &str) -> Result<()> {
    let pod = &workload["spec"]["template"];
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().context("no labels")? {
        assert_eq!(&pod["metadata"]["labels"][label], value, "{label}");
    }
    assert_eq!(monitor["metadata"]["namespace"], workload["metadata"]["namespace"]);
    let port = &pod["spec"]["containers"][0]["ports"][0]["name"];
    assert_eq!(&monitor["spec"]["podMetricsEndpoints"][0]["port"], port);
    // The alerts select this job.
    let label = monitor["spec"]["jobLabel"].as_str().context("no label for the job")?;
    assert_eq!(pod["metadata"]["labels"][label], job);
    Ok(())
}
