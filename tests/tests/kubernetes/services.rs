//! Services come, change and go.

use anyhow::Result;
use vipward_tests::{
    cluster::{ClusterOptions, ServiceSpec, scenario},
    scene::VIP,
};

#[test]
fn a_service_is_answered_for_by_one_node_and_silence_follows_its_deletion() -> Result<()> {
    scenario("service", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;
        watch.wait_until_received_by(VIP, holder)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}
