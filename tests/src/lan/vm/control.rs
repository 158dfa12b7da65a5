//! Talks to the machine's QEMU, for what only it can do, through a port of the machine (QMP).

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::frames::Mac;

/// Name of the port.
const NAME: &str = "control";
const PORTS: &str = "/sys/class/virtio-ports";

/// Open port. Only one is open at a time.
#[derive(Debug)]
pub struct Control {
    port: BufReader<File>,
    commands: u64,
}

impl Control {
    pub fn open() -> Result<Self> {
        let ports = fs::read_dir(PORTS).with_context(|| format!("failed to list {PORTS}"))?;
        let is_it = |dir: &fs::DirEntry| {
            fs::read_to_string(dir.path().join("name")).is_ok_and(|name| name.trim_end() == NAME)
        };
        let dir = ports.flatten().find(is_it).with_context(|| format!("no port is named {NAME}"))?;
        let path = format!("/dev/{}", dir.file_name().to_string_lossy());
        let port = OpenOptions::new().read(true).write(true).open(&path);
        let port = port.with_context(|| format!("failed to open {path}"))?;
        let mut control = Self { port: BufReader::new(port), commands: 0 };
        // Every command but the first of these is refused, and changes nothing.
        control.answer(&json!({"execute": "qmp_capabilities"}))?;
        Ok(control)
    }

    /// Gives or takes the carrier of the NIC with this permanent address.
    pub fn set_carrier(&mut self, nic: Mac, carrier: bool) -> Result<()> {
        let name = format!("nic{}", nic.to_string().replace(':', "-"));
        self.execute(&json!({"execute": "set_link", "arguments": {"name": name, "up": carrier}}))
    }

    /// Makes QEMU announce the NICs, as after a migration: it makes the driver do so, once.
    pub fn announce(&mut self) -> Result<()> {
        let arguments = json!({"initial": 50, "max": 550, "rounds": 1, "step": 100});
        self.execute(&json!({"execute": "announce-self", "arguments": arguments}))
    }

    fn execute(&mut self, command: &Value) -> Result<()> {
        let answer = self.answer(command)?;
        ensure!(answer.get("error").is_none(), "QEMU refused {command}: {answer}");
        Ok(())
    }

    /// Sends a command, and returns its answer. Skips events.
    fn answer(&mut self, command: &Value) -> Result<Value> {
        self.commands += 1;
        // A number that no answer to an earlier user of the port has.
        let id = format!("{}-{}-{:?}", std::process::id(), self.commands, std::time::SystemTime::now());
        let mut command = command.clone();
        command["id"] = id.clone().into();
        writeln!(self.port.get_mut(), "{command}").with_context(|| format!("failed to send {command}"))?;
        loop {
            let mut line = String::new();
            let read = self.port.read_line(&mut line).context("failed to read QEMU's answer")?;
            ensure!(read > 0, "QEMU closed the port");
            let answer: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
            if answer["id"] == id.as_str() {
                return Ok(answer);
            }
        }
    }
}
