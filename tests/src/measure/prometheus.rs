//! Runs a real Prometheus on a host, and promtool.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    kit::{Process, tools, wait_for},
    lan::{Host, http},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// Address on the host's loopback interface.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
/// Interval between scrapes.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// Running Prometheus. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    host: Host,
    process: Process,
    _directory: TempDir,
}

/// Series with its present value.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub labels: Value,
    pub value: f64,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `targets` as job `vipward` and has the alerts that ship, and waits
    /// for a scrape of each.
    pub fn start(host: &Host, targets: &[SocketAddr]) -> Result<Self> {
        let directory = TempDir::with_prefix("vipward-prometheus-").context("failed to make a directory")?;
        let config = json!({
            "global": {
                "scrape_interval": format!("{}ms", INTERVAL.as_millis()),
                "evaluation_interval": format!("{}ms", INTERVAL.as_millis()),
            },
            "rule_files": [tools::in_checkout("deploy/prometheus/rules.yaml")],
            "scrape_configs": [{
                "job_name": "vipward",
                "static_configs": [{"targets": targets.iter().map(ToString::to_string).collect::<Vec<_>>()}],
            }],
        });
        let file = directory.path().join("prometheus.yaml");
        // JSON is YAML.
        fs::write(&file, config.to_string()).context("failed to write a configuration")?;
        let mut command = host.command(tools::prometheus()?);
        command
            .arg(flag("config.file", &file))
            .arg(flag("storage.tsdb.path", &directory.path().join("data")));
        command.arg(format!("--web.listen-address={ADDRESS}"));
        let mut prometheus =
            Self { host: host.clone(), process: host.spawn(command)?, _directory: directory };
        prometheus.wait_until_scraped(targets.len())?;
        Ok(prometheus)
    }

    fn wait_until_scraped(&mut self, targets: usize) -> Result<()> {
        let scraped = wait_for(PATIENCE, "Prometheus to scrape every target", || {
            ensure!(self.process.exit_status()?.is_none(), "Prometheus has ended");
            // It does not listen at once.
            let up = self.query("up == 1").unwrap_or_default();
            Ok((up.len() == targets).then_some(()))
        });
        scraped.with_context(|| format!("it printed:{}", self.process.transcript()))
    }

    /// Returns the present value of an expression.
    pub fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let query: String =
            form_urlencoded::Serializer::new(String::new()).append_pair("query", expression).finish();
        let answer = http::get(&self.host, ADDRESS, &format!("/api/v1/query?{query}"))?;
        let text = answer.body.clone();
        let answer = answer.json().with_context(|| format!("{expression}: {text}"))?;
        ensure!(answer["status"] == "success", "{expression}: {answer}");
        match answer["data"]["resultType"].as_str() {
            Some("vector") => {}
            other => anyhow::bail!("{expression} gives {other:?}"),
        }
        let samples = answer["data"]["result"].as_array().context("no result")?;
        samples
            .iter()
            .map(|sample| {
                let value = sample["value"][1].as_str().context("no value")?.parse()?;
                Ok(Sample { labels: sample["metric"].clone(), value })
            })
            .collect()
    }

    /// Returns the past values of an expression: for each
    /// series the times, in seconds from the first, and values.
    pub fn range(&self, expression: &str, last: Duration, step: Duration) -> Result<Vec<Series>> {
        let now = self.query("vector(time())")?.first().context("no time")?.value;
        let start = now - last.as_secs_f64();
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .append_pair("start", &start.to_string())
            .append_pair("end", &now.to_string())
            .append_pair("step", &step.as_secs_f64().to_string())
            .finish();
        let answer = http::get(&self.host, ADDRESS, &format!("/api/v1/query_range?{query}"))?.json()?;
        let series = answer["data"]["result"].as_array().context("no result")?;
        series
            .iter()
            .map(|series| {
                let values = series["values"].as_array().context("no values")?;
                let points = values.iter().map(|point| {
                    let at = point[0].as_f64().context("no time")? - start;
                    Ok((at, point[1].as_str().context("no value")?.parse()?))
                });
                Ok(Series { labels: series["metric"].clone(), points: points.collect::<Result<_>>()? })
            })
            .collect()
    }
}

/// Series over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    pub labels: Value,
    /// Seconds since the first point, and the value.
    pub points: Vec<(f64, f64)>,
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Runs promtool with these arguments and this input, and returns its output.
pub fn promtool(arguments: &[&str], input: Option<&str>) -> Result<String> {
    let mut command = Command::new(tools::promtool()?);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let file = match input {
        Some(input) => {
            let mut file = tempfile::tempfile().context("failed to make a file for promtool")?;
            std::io::Write::write_all(&mut file, input.as_bytes())?;
            std::io::Seek::rewind(&mut file)?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let output = command.stdin(file).output().context("failed to start promtool")?;
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "promtool {arguments:?} failed: {printed}");
    Ok(printed)
}
