//! What the program does with single frames: one row of a table per case.
//!
//! Each row is run in the kernel with maps of its own. Asserted are the action, every byte of the frame
//! afterwards, that one counter moved and which, the VIP's own counters, the event, and what yielded.

#[path = "fixtures/rows.rs"]
mod rows;
#[path = "fixtures/world.rs"]
mod world;

use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};
use vipward_common::{
    EVENT_INTERVAL_NS, Event, EventKind, Limiter, MAX_OFFENDERS, MacAddr, OffenderKey, Outcome, Role,
    VIP_COUNTER_SLOTS, VipCounters, VipState, Yield,
};
use vipward_tests::kernel::{IFINDEX, Kernel, moved};
use world::{
    ASKER, Frame, GENERATION, HeldOver, OUR, PEER, ROGUE, Row, SLOT, SOMEONE, VIP, Valid, announces, asks,
    asks_as_vip, held, probes, replies, unknown,
};

fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(u64::try_from(now.tv_sec())? * 1_000_000_000 + u64::try_from(now.tv_nsec())?)
}

/// Which of the VIP's own counters an outcome adds to.
fn counted(outcome: Outcome) -> VipCounters {
    let name = outcome.name();
    VipCounters {
        answered: u64::from(name.starts_with("answered")),
        conflicts: u64::from(name == "claim_conflict"),
        suppressed: u64::from(name.starts_with("suppressed") || name.starts_with("refused")),
    }
}

fn check(kernel: &mut Kernel, row: &Row) -> Result<()> {
    kernel.maps.reset()?;
    row.given.install(&mut kernel.maps)?;
    let frame = &row.frame.0;
    let (before, yields) = (kernel.maps.counters()?, kernel.maps.yields()?);
    let ran = kernel.program.run(frame)?;
    let after = kernel.maps.counters()?;

    let then = &row.then;
    assert_eq!(moved(&before, &after), [(then.outcome.name(), 1)], "counters");
    assert_eq!(ran.action, then.action, "action");
    match then.reply {
        Some((mac, source)) => assert_eq!(ran.bytes, row.frame.reply(mac, source).0, "reply"),
        None => assert_eq!(&ran.bytes, frame, "an untouched frame"),
    }
    let slot = row.given.slot();
    let about = then.about.unwrap_or(slot);
    let expected = if about < VIP_COUNTER_SLOTS { counted(then.outcome) } else { VipCounters::default() };
    assert_eq!(kernel.maps.vip_counters(about)?, expected, "counters of the VIP");
    if about != slot {
        assert_eq!(kernel.maps.vip_counters(slot)?, VipCounters::default(), "counters of the other VIP");
    }

    let record = kernel.maps.vip_state(slot)?.yielded;
    let expected = then.yields.map(|mac| Yield { mac: mac.0, generation: GENERATION });
    assert_eq!(record, expected.or(row.given.record).unwrap_or_default(), "record of yielding");
    assert_eq!(kernel.maps.yields()? - yields, u64::from(expected.is_some()), "number of yields");

    let events = kernel.maps.events()?;
    let Some((kind, holder)) = then.event else {
        assert_eq!(events, [], "no event");
        return Ok(());
    };
    let [event] = events[..] else { panic!("expected one {kind:?} but got {events:?}") };
    let expected = row.frame.event(kind, holder, event.at_ns);
    assert_eq!(event, expected, "event");
    let age = now_ns()?.checked_sub(event.at_ns).context("the event is from the future")?;
    assert!(age < 1_000_000_000, "the event is {age} ns old");
    Ok(())
}

#[test]
fn every_row_ends_as_it_says() -> Result<()> {
    let mut kernel = Kernel::load()?;
    let rows = rows::all();
    let mut failed = 0;
    for row in &rows {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut kernel, row)));
        if !matches!(result, Ok(Ok(()))) {
            failed += 1;
            println!("FAILED: {} {result:?}", row.what);
        }
    }
    println!("{} rows", rows.len());
    assert!(rows.len() >= 100, "only {} rows", rows.len());
    assert_eq!(failed, 0, "rows failed; see above");
    Ok(())
}

#[test]
fn a_clear_filter_bit_hides_a_claim_and_nothing_else() -> Result<()> {
    let mut kernel = Kernel::load()?;
    held(Valid).install(&mut kernel.maps)?;
    assert_eq!(outcome(&kernel, &replies(ROGUE))?, "claim_conflict");
    kernel.maps.set_filter(VIP, false)?;
    assert_eq!(outcome(&kernel, &replies(ROGUE))?, "arp_no_vip");
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "answered");
    Ok(())
}

/// Runs a frame and tells the one counter that it moved.
fn outcome(kernel: &Kernel, frame: &Frame) -> Result<&'static str> {
    let before = kernel.maps.counters()?;
    kernel.program.run(&frame.0)?;
    match moved(&before, &kernel.maps.counters()?)[..] {
        [(name, 1)] => Ok(name),
        ref other => anyhow::bail!("expected one counter to move, but {other:?} did"),
    }
}

#[test]
fn a_yielded_entry_is_foreign_until_it_is_taken_again_with_a_new_generation() -> Result<()> {
    let mut kernel = Kernel::load()?;
    let given = held(HeldOver);
    given.install(&mut kernel.maps)?;
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "answered_held_over");
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_yielded");
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "suppressed_foreign");
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_passed", "by the new holder");
    assert_eq!(outcome(&kernel, &announces(OUR))?, "claim_conflict", "we are not the holder any more");

    // Neither a renewed fence nor an update for another reason brings it back.
    kernel.maps.set_fence(Valid.fence(0))?;
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "suppressed_foreign");
    kernel.maps.replace_entry(given.key(), &given.entry().context("held")?)?;
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "suppressed_foreign");

    let mut again = given.entry().context("held")?;
    again.generation += 1;
    kernel.maps.replace_entry(given.key(), &again)?;
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "answered");
    Ok(())
}

#[test]
fn records_are_not_read_once_userspace_says_that_they_are_settled() -> Result<()> {
    let mut kernel = Kernel::load()?;
    let given = held(HeldOver);
    given.install(&mut kernel.maps)?;
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_yielded");
    let mut foreign = given.entry().context("held")?;
    (foreign.role, foreign.mac) = (Role::Foreign, PEER.0);
    kernel.maps.replace_entry(given.key(), &foreign)?;
    kernel.maps.set_fence(Valid.fence(1))?;
    assert_eq!(outcome(&kernel, &asks(ASKER))?, "suppressed_foreign", "by the entry");
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_passed");

    // The next yield, of any entry, makes the program look again.
    let other = held(Valid).at([192, 0, 2, 12], SLOT + 1);
    other.install_entry(&mut kernel.maps)?;
    kernel.maps.set_fence(HeldOver.fence(1))?;
    assert_eq!(outcome(&kernel, &announces(PEER).about([192, 0, 2, 12]))?, "claim_yielded");
    assert_eq!(outcome(&kernel, &asks(ASKER).about([192, 0, 2, 12]))?, "suppressed_foreign");
    assert_eq!(kernel.maps.yields()?, 2);
    Ok(())
}

fn limited(strangers: Limiter, peers: Limiter) -> VipState {
    VipState { strangers, peers, ..VipState::default() }
}

const NEVER: Limiter = Limiter { next_ns: u64::MAX, swallowed: 0 };

#[test]
fn events_of_one_kind_of_trouble_are_limited_and_counted() -> Result<()> {
    let mut kernel = Kernel::load()?;
    held(Valid).install(&mut kernel.maps)?;
    kernel.maps.set_vip_state(SLOT, limited(NEVER, Limiter::default()))?;
    for swallowed in 1..=3 {
        assert_eq!(outcome(&kernel, &announces(ROGUE))?, "claim_conflict");
        assert_eq!(kernel.maps.vip_state(SLOT)?.strangers.swallowed, swallowed);
    }
    assert_eq!(kernel.maps.events()?, []);

    // What peers do has a limit of its own.
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_contested");
    let events = kernel.maps.events()?;
    assert_eq!(
        events.iter().map(|event| (event.kind, event.swallowed)).collect::<Vec<_>>(),
        [(EventKind::Contested, 0)]
    );

    // The next event that is due says how many there were.
    kernel.maps.set_vip_state(SLOT, limited(Limiter { next_ns: 0, swallowed: 3 }, NEVER))?;
    assert_eq!(outcome(&kernel, &announces(ROGUE))?, "claim_conflict");
    let events = kernel.maps.events()?;
    let [Event { at_ns, swallowed: 3, kind: EventKind::Conflict, .. }] = events[..] else {
        panic!("expected a conflict with 3 swallowed, but got {events:?}")
    };
    let next = Limiter { next_ns: at_ns + EVENT_INTERVAL_NS, swallowed: 0 };
    assert_eq!(kernel.maps.vip_state(SLOT)?, limited(next, NEVER));
    Ok(())
}

#[test]
fn a_yield_is_told_whatever_the_limit() -> Result<()> {
    let mut kernel = Kernel::load()?;
    held(HeldOver).install(&mut kernel.maps)?;
    kernel.maps.set_vip_state(SLOT, limited(NEVER, Limiter { swallowed: 5, ..NEVER }))?;
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_yielded");
    let events = kernel.maps.events()?;
    let [Event { kind: EventKind::Yielded, swallowed: 5, .. }] = events[..] else {
        panic!("expected a yield with 5 swallowed, but got {events:?}")
    };
    Ok(())
}

#[test]
fn events_that_find_the_buffer_full_are_counted_and_told_of_by_the_next() -> Result<()> {
    const RECORD_BYTES: usize = size_of::<Event>() + 8;

    let mut kernel = Kernel::load()?;
    held(Valid).install(&mut kernel.maps)?;
    let fits = vipward_common::EVENTS_BYTES as usize / RECORD_BYTES;
    let before = kernel.maps.counters()?;
    for _ in 0..fits + 10 {
        let swallowed = kernel.maps.vip_state(SLOT)?.strangers.swallowed;
        kernel.maps.set_vip_state(SLOT, limited(Limiter { next_ns: 0, swallowed }, NEVER))?;
        kernel.program.run(&announces(ROGUE).0)?;
    }
    let lost = kernel.maps.counters()?.events_lost - before.events_lost;
    assert!((10..=11).contains(&lost), "{lost} events were lost");
    assert_eq!(kernel.maps.vip_state(SLOT)?.strangers.swallowed, lost);
    assert_eq!(kernel.maps.events()?.len() as u64 + lost, fits as u64 + 10);

    kernel.maps.set_vip_state(SLOT, limited(Limiter { next_ns: 0, swallowed: lost }, NEVER))?;
    kernel.program.run(&announces(ROGUE).0)?;
    assert_eq!(kernel.maps.events()?[0].swallowed, lost);
    Ok(())
}

/// The claims by one MAC, as `offenders` has them.
fn claims_by(kernel: &Kernel, mac: MacAddr) -> Result<Option<(EventKind, u64)>> {
    let key = OffenderKey { ifindex: IFINDEX, vlan: 0, mac: mac.0, addr: VIP };
    Ok(kernel.maps.offenders()?.get(&key).map(|offender| (offender.kind, offender.claims)))
}

#[test]
fn every_offender_is_remembered_also_those_whose_events_were_swallowed() -> Result<()> {
    let mut kernel = Kernel::load()?;
    held(Valid).install(&mut kernel.maps)?;
    kernel.maps.set_vip_state(SLOT, limited(NEVER, NEVER))?;
    let by_two =
        [(ROGUE, announces(ROGUE)), (SOMEONE, replies(SOMEONE)), (ROGUE, asks_as_vip(ROGUE).source(ASKER))];
    for (_, frame) in &by_two {
        assert_eq!(outcome(&kernel, frame)?, "claim_conflict");
    }
    assert_eq!(outcome(&kernel, &announces(PEER))?, "claim_contested");
    assert_eq!(kernel.maps.events()?, []);
    assert_eq!(claims_by(&kernel, ROGUE)?, Some((EventKind::Conflict, 2)));
    assert_eq!(claims_by(&kernel, SOMEONE)?, Some((EventKind::Conflict, 1)));
    assert_eq!(claims_by(&kernel, PEER)?, Some((EventKind::Contested, 1)));

    let key = OffenderKey { ifindex: IFINDEX, vlan: 0, mac: ROGUE.0, addr: VIP };
    let rogue = kernel.maps.offenders()?[&key];
    assert_eq!((rogue.oper, rogue.source), (1, ASKER.0), "what the last claim said");
    assert!(0 < rogue.first_ns && rogue.first_ns <= rogue.last_ns);
    Ok(())
}

#[test]
fn who_probes_for_an_unknown_vip_is_remembered_and_who_claims_it_rightly_is_not() -> Result<()> {
    let mut kernel = Kernel::load()?;
    unknown().install(&mut kernel.maps)?;
    kernel.program.run(&probes(ASKER).0)?;
    assert_eq!(claims_by(&kernel, ASKER)?, Some((EventKind::Probed, 1)));
    kernel.program.run(&announces(PEER).0)?;
    assert_eq!(claims_by(&kernel, PEER)?, None);
    Ok(())
}

#[test]
fn a_flood_from_ever_new_macs_is_remembered_within_bounds() -> Result<()> {
    let mut kernel = Kernel::load()?;
    held(Valid).install(&mut kernel.maps)?;
    for number in 0..3 * MAX_OFFENDERS {
        let [a, b, c, d] = number.to_be_bytes();
        kernel.program.run(&announces(MacAddr([2, 0xfe, a, b, c, d])).0)?;
    }
    let remembered = kernel.maps.offenders()?.len();
    assert!(remembered <= MAX_OFFENDERS as usize, "{remembered} are remembered");
    // Who is heard next is remembered all the same.
    kernel.program.run(&announces(ROGUE).0)?;
    assert!(claims_by(&kernel, ROGUE)?.is_some());
    Ok(())
}
