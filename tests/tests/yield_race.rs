//! Yielding against other CPUs and against userspace: one yield wins, and nothing but a new generation undoes it.

use std::{
    hint,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use vipward_common::{EventKind, Fence, MacAddr, Policy, Role, VipEntry, VipKey, VipState};
use vipward_tests::kernel::{IFINDEX, Kernel, Maps, Program, XdpAction};

const VIP: [u8; 4] = [192, 0, 2, 10];
const OUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x01]);
const PEERS: [MacAddr; 2] =
    [MacAddr([2, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4]), MacAddr([2, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4])];
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);
const SLOT: u32 = 3;
const ROUNDS: u16 = 20_000;
/// A race is worth its name when both CPUs were in it this often; on a busy machine that takes more rounds.
const COLLISIONS: u32 = 10;
/// Each round takes a generation, and the last one is the entry's before the first round.
const MOST_ROUNDS: u16 = u16::MAX - 1;

fn request(sha: MacAddr, spa: [u8; 4]) -> Vec<u8> {
    let header = [0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 6, 4, 0, 1];
    [&[0xff; 6][..], &sha.0, &header, &sha.0, &spa, &[0; 6], &VIP].concat()
}

fn held(generation: u16) -> VipEntry {
    VipEntry { mac: OUR.0, generation, role: Role::Held, slot: SLOT, until_ns: 0 }
}

/// A held VIP, two peers, and a fence that is held over.
fn kernel() -> Result<Kernel> {
    let mut kernel = Kernel::load()?;
    let fence = Fence {
        deadline_ns: 1,
        hold_until_ns: u64::MAX,
        yields_settled: 0,
        session: 0,
        policy: Policy::Hold,
        _pad: 0,
    };
    kernel.maps.set_fence(fence)?;
    for peer in PEERS {
        kernel.maps.set_peer(IFINDEX, peer)?;
    }
    kernel.maps.set_entry(VipKey::untagged(IFINDEX, VIP), &held(u16::MAX))?;
    Ok(kernel)
}

/// Two CPUs that this process may use.
fn two_cpus() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let mut cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let (first, second) = (cpus.next(), cpus.next());
    Ok([first.context("no CPU")?, second.context("a race needs two CPUs; this process may use one only")?])
}

fn pin_to(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Spins until `counter` has reached `at_least`; `false` when the other side is gone.
fn reached(counter: &AtomicUsize, at_least: usize, gone: &AtomicBool) -> bool {
    let mut spins = 0_u32;
    while counter.load(Ordering::Acquire) < at_least {
        if gone.load(Ordering::Acquire) {
            return false;
        }
        // On a busy machine the other side may be waiting for this CPU.
        spins += 1;
        if spins.is_multiple_of(10_000) {
            thread::yield_now();
        }
        hint::spin_loop();
    }
    true
}

/// Each test needs both CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that this side is gone, also when it panics.
struct Gone<'a>(&'a AtomicBool);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What a round must have left behind; tells whether both CPUs had decided to yield.
fn judge(maps: &mut Maps, program: &Program, generation: u16) -> Result<bool> {
    assert_eq!(maps.yields()?, u64::from(generation), "one yield a round");
    let record = maps.vip_state(SLOT)?.yielded;
    assert_eq!(record.generation, generation);
    assert!(PEERS.contains(&MacAddr(record.mac)), "{:02x?} is neither peer's MAC", record.mac);
    let ran = program.run(&request(ASKER, [192, 0, 2, 99]))?;
    assert_eq!(ran.action, XdpAction::Drop, "the VIP is not ours any more");

    let events = maps.events()?;
    let yielded: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Yielded).collect();
    assert!(matches!(yielded[..], [event] if event.sha == record.mac), "not the winner's event: {events:?}");
    // The loser names us as the holder only if it had read the record before the winner wrote it.
    Ok(events.iter().any(|event| event.kind == EventKind::Moved && event.holder == OUR.0))
}

#[test]
fn of_two_cpus_that_yield_to_two_peers_one_wins() -> Result<()> {
    let _alone = alone();
    let [first, second] = two_cpus()?;
    let Kernel { program, mut maps } = kernel()?;
    let announcements = PEERS.map(|peer| request(peer, VIP));
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (we_gone, it_gone) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut rounds, mut collisions) = (0, 0);
    thread::scope(|scope| -> Result<()> {
        let racer = scope.spawn(|| -> Result<()> {
            let _gone = Gone(&it_gone);
            pin_to(second)?;
            for round in 1.. {
                if !reached(&begun, round, &we_gone) {
                    break;
                }
                program.run(&announcements[1])?;
                ended.store(round, Ordering::Release);
            }
            Ok(())
        });
        let gone = Gone(&we_gone);
        pin_to(first)?;
        for generation in 1..=MOST_ROUNDS {
            if generation > ROUNDS && collisions >= COLLISIONS {
                break;
            }
            // The limiters are cleared, so that the loser's event is told.
            let yielded = maps.vip_state(SLOT)?.yielded;
            maps.set_vip_state(SLOT, VipState { yielded, ..VipState::default() })?;
            maps.replace_entry(VipKey::untagged(IFINDEX, VIP), &held(generation))?;
            begun.store(generation.into(), Ordering::Release);
            // Now one is earlier, now the other.
            (0..generation % 256).for_each(|_| hint::spin_loop());
            program.run(&announcements[0])?;
            if !reached(&ended, generation.into(), &it_gone) {
                break;
            }
            collisions += u32::from(judge(&mut maps, &program, generation)?);
            rounds = generation;
        }
        drop(gone);
        racer.join().expect("invariant: the racer does not panic")
    })?;
    println!("{rounds} rounds, in {collisions} of which both CPUs had decided to yield");
    assert!(collisions > 0, "in none of {rounds} rounds had both CPUs decided to yield");
    Ok(())
}

#[test]
fn updates_by_userspace_of_the_same_generation_never_undo_a_yield() -> Result<()> {
    let _alone = alone();
    let [first, second] = two_cpus()?;
    let Kernel { program, mut maps } = kernel()?;
    let key = VipKey::untagged(IFINDEX, VIP);
    let (announcement, asked) = (request(PEERS[0], VIP), request(ASKER, [192, 0, 2, 99]));
    let rounds = ROUNDS / 4;
    let (wanted, written) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let (we_gone, it_gone) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut updates = 0_u64;
    thread::scope(|scope| -> Result<()> {
        let racer = scope.spawn(|| -> Result<()> {
            let _gone = Gone(&it_gone);
            pin_to(second)?;
            for round in 1..=usize::from(rounds) {
                if !reached(&written, round, &we_gone) {
                    break;
                }
                assert_eq!(program.run(&asked)?.action, XdpAction::Tx, "held in round {round}");
                assert_eq!(program.run(&announcement)?.action, XdpAction::Pass);
                for _ in 0..20 {
                    assert_eq!(program.run(&asked)?.action, XdpAction::Drop, "undone in round {round}");
                }
                wanted.store(round + 1, Ordering::Release);
            }
            Ok(())
        });
        let gone = Gone(&we_gone);
        pin_to(first)?;
        while !it_gone.load(Ordering::Acquire) {
            let generation = wanted.load(Ordering::Acquire);
            maps.replace_entry(key, &held(u16::try_from(generation)?))?;
            written.store(generation, Ordering::Release);
            updates += 1;
        }
        drop(gone);
        racer.join().expect("invariant: the VIP stays yielded")
    })?;
    println!("{updates} updates against {} yields", maps.yields()?);
    assert_eq!(maps.yields()?, u64::from(rounds));
    assert!(updates > 2 * u64::from(rounds), "too few updates to meet the yields: {updates}");
    Ok(())
}
