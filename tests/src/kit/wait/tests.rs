use super::*;

#[test]
fn a_condition_gets_a_look_even_when_time_is_up() -> Result<()> {
    wait_until(Duration::ZERO, "what is so already", || Ok(true))
}

#[test]
fn a_failure_says_what_was_waited_for() {
    let in_vain = wait_until(Duration::ZERO, "carrier on eth0", || Ok(false));
    let in_vain = format!("{:#}", in_vain.expect_err("it never holds"));
    assert_eq!(in_vain, "waited 0ns in vain for carrier on eth0");

    let broken = wait_until(Duration::from_mins(1), "carrier on eth0", || bail!("there is no eth0"));
    let broken = format!("{:#}", broken.expect_err("it fails at once"));
    assert_eq!(broken, "while waiting for carrier on eth0: there is no eth0");
}

#[test]
fn what_is_found_is_returned_once_it_is_there() -> Result<()> {
    let mut looks = 0;
    let found = wait_for(Duration::from_mins(1), "the third look", || {
        looks += 1;
        Ok((looks == 3).then_some(looks))
    })?;
    assert_eq!(found, 3);
    Ok(())
}
