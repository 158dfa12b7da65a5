//! The output of `bpftool map dump pinned` for the maps: named
//! fields, and names of roles and policies.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{ROGUE, Scene, VIP, answers_to, clients_request, ip, map_dump},
    frames::Arp,
    lan::Wire,
};

const CONFIG: &str = "
vips:
  - address: 192.0.2.10
  - {address: 192.0.2.1, mac: '02:00:00:00:00:01'}
peers: ['02:00:00:00:0a:02']
fence: {duration: 20s, policy: hold, hold_for: 1h}
";

/// Returns the only element of a map with one.
fn only(mut elements: Vec<Value>) -> Result<Value> {
    let last = elements.pop().context("the map is empty")?;
    assert_eq!(elements, Vec::<Value>::new(), "beside {last}");
    Ok(last)
}

#[test]
fn pinned_maps_show_named_fields() -> Result<()> {
    let scene = Scene::new("maps")?;
    let agent = scene.agent(CONFIG)?;
    let ifindex = scene.node.link("eth0")?.index;
    let wire = Wire::open(&scene.client, "eth0")?;
    for _ in 0..3 {
        assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?.len(), 1);
    }

    let mut vips = map_dump(&agent, "vips_v4")?;
    vips.sort_by_key(|vip| vip["key"]["addr"][3].as_u64());
    for (vip, addr, mac, role) in
        [(&vips[0], 1, [2, 0, 0, 0, 0, 1], "Foreign"), (&vips[1], 10, [2, 0, 0, 0, 0, 2], "Held")]
    {
        assert_eq!(vip["key"], json!({"ifindex": ifindex, "addr": [192, 0, 2, addr]}));
        assert_eq!((&vip["value"]["role"], &vip["value"]["mac"]), (&json!(role), &json!(mac)), "{vip}");
        let mut fields: Vec<_> = vip["value"].as_object().context("no fields")?.keys().collect();
        fields.sort();
        assert_eq!(fields, ["generation", "mac", "role", "slot", "until_ns"]);
    }
    assert_eq!(vips.len(), 2);

    let lease_deadline = only(map_dump(&agent, "lease_deadline")?)?;
    assert_eq!(
        (&lease_deadline["key"], &lease_deadline["value"]["policy"]),
        (&json!(0), &json!("Hold")),
        "{lease_deadline}"
    );
    let ns = |field: &str| {
        lease_deadline["value"][field].as_u64().with_context(|| format!("no {field} in {lease_deadline}"))
    };
    assert_eq!(ns("grace_until_ns")? - ns("deadline_ns")?, 3_600_000_000_000, "hold_for");
    assert_eq!(ns("yields_settled")?, 0);

    let peer = only(map_dump(&agent, "peers")?)?;
    assert_eq!(peer["key"], json!({"ifindex": ifindex, "mac": [2, 0, 0, 0, 10, 2], "_pad": 0}));
    assert!(peer["value"]["since_ns"].as_u64().is_some_and(|since| since > 0), "{peer}");

    let own = only(map_dump(&agent, "own_macs")?)?;
    assert_eq!(own["key"], json!({"ifindex": ifindex}));
    assert_eq!(own["value"]["mac"], json!([2, 0, 0, 0, 0, 2]));
    assert!(own["value"]["proof"].is_u64(), "{own}");
    Ok(())
}

#[test]
fn the_counters_have_one_named_field_per_outcome() -> Result<()> {
    let scene = Scene::new("counters")?;
    let agent = scene.agent(CONFIG)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    for _ in 0..3 {
        assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?.len(), 1);
    }
    // The client's own request would be a claim.
    let request = Arp::request(ROGUE, ip(3), ip(1));
    assert_eq!(answers_to(&wire, &request, ip(2))?, []);

    let counters = only(map_dump(&agent, "counters")?)?;
    let cpus = counters["values"].as_array().context("no value per CPU")?;
    let sum = |outcome: &str| cpus.iter().map(|cpu| cpu["value"][outcome].as_u64()).sum::<Option<u64>>();
    assert_eq!((sum("answered"), sum("suppressed_foreign")), (Some(3), Some(1)), "{counters:#}");
    let mut named: Vec<_> = cpus[0]["value"].as_object().context("no fields")?.keys().cloned().collect();
    named.retain(|name| !["claims_defended", "events_lost"].contains(&name.as_str()));
    named.sort();
    let status = agent.status()?;
    let listed: Vec<_> = status["counters"].as_object().context("no counters")?.keys().cloned().collect();
    assert_eq!(named, listed, "what status calls them");
    assert_eq!(listed.len(), 19);
    Ok(())
}
