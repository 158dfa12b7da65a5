//! Ports on a shared VIP: whoever has one keeps it, and whoever adds it to another's is refused.

use proptest::prelude::*;

use super::{
    sharing::{VIP, held_on, on_vip},
    *,
};

#[derive(Clone, Copy, Debug)]
enum Do {
    /// The Service has these ports now, and is created with them if it is not there.
    Put(&'static str, &'static [u16]),
    Delete(&'static str),
    /// The claim is read. It names the Services that have the VIP by then.
    Claim,
    ClaimOf(&'static [&'static str]),
    ClaimGone,
    /// Another process takes the place of this one, and reads what is there.
    Restart,
}

/// Services that want the VIP, as one process sees them. All consent to all.
struct Shared {
    role: Role,
    world: World,
    ports: BTreeMap<&'static str, Vec<u16>>,
    /// The order in which the Services were created.
    created: BTreeMap<&'static str, i64>,
    claim: Option<Vec<String>>,
}

impl Shared {
    fn new(role: Role) -> Self {
        let (ports, created) = (BTreeMap::new(), BTreeMap::new());
        let mut shared =
            Self { role, world: World::unsynced(role, Settings::default()), ports, created, claim: None };
        shared.begin();
        shared
    }

    fn begin(&mut self) {
        self.world = World::unsynced(self.role, Settings::default());
        for namespace in ["x", "y", "z"] {
            self.world.notify(consent(namespace, &["x", "y", "z"]));
        }
        for (name, ports) in self.ports.clone() {
            self.put(name, &ports);
        }
        self.notify_claim();
        self.world.notify(Event::Synced);
    }

    fn put(&mut self, name: &'static str, ports: &[u16]) {
        let next = i64::try_from(self.created.len()).expect("there are few");
        let created = *self.created.entry(name).or_insert(next);
        self.ports.insert(name, ports.into());
        let annotations = [("vipward.io/addresses", VIP), ("vipward.io/share", "key")];
        let record = on_vip(name).annotated(&annotations).ports(ports).created(created);
        // What the controller has given, an agent beside it finds in the status.
        let record = if self.role == Role::Announcer { record.status("vipward", &[VIP]) } else { record };
        self.world.put(record);
    }

    fn notify_claim(&mut self) {
        if let Some(services) = &self.claim {
            let services: Vec<_> = services.iter().map(String::as_str).collect();
            let mut event = held_on("node-z", &services);
            if let (Role::Controller, Event::Claim { reservation, .. }) = (self.role, &mut event) {
                let service = named("x/a");
                *reservation = Some(Box::new(Reservation { service, pool: None, kept: None }));
            }
            self.world.notify(event);
        }
    }

    fn having(&self) -> Vec<String> {
        let demand = self.world.demands.get(&ip(VIP));
        demand.into_iter().flat_map(|demand| &demand.services).map(ToString::to_string).collect()
    }

    fn run(&mut self, what: Do) {
        match what {
            Do::Put(name, ports) => self.put(name, ports),
            Do::Delete(name) => {
                self.ports.remove(name);
                self.world.notify(Event::ServiceGone(named(name)));
            }
            Do::Claim => {
                self.claim = Some(self.having());
                self.notify_claim();
            }
            Do::ClaimOf(services) => {
                self.claim = Some(services.iter().map(ToString::to_string).collect());
                self.notify_claim();
            }
            Do::ClaimGone => {
                self.claim = None;
                self.world.notify(Event::ClaimGone(ip(VIP)));
            }
            Do::Restart => self.begin(),
        }
    }

    /// Returns the Services that a clash keeps from the VIP, each with the one that has the port.
    fn clashes(&self) -> Vec<String> {
        let words = self.world.words();
        let clashes = words.iter().filter(|notified| notified.contains("is not announced for this Service"));
        let short = clashes.map(|notified| {
            let (service, rest) = notified.split_once(": ").expect("the Service");
            let (_, with) = rest.split_once(" is that of Service ").expect("the other one");
            format!("{service}: {}", with.split_once(';').expect("the remedy").0)
        });
        short.collect()
    }
}

/// Steps, and then the Services that have the VIP, and the clashes.
type Row = (&'static str, &'static [Do], &'static [&'static str], &'static [&'static str]);

/// Carries the steps out. Before them, x/a owns the VIP, and has port 80. x/b has port 25.
fn check(table: &[Row]) {
    for role in [Role::Alone, Role::Announcer, Role::Controller] {
        for (description, steps, having, clashes) in table {
            // A controller would reserve the address anew.
            let frees = steps.iter().any(|step| matches!(step, Do::Delete("x/a") | Do::ClaimGone));
            if role == Role::Controller && frees {
                continue;
            }
            let mut shared = Shared::new(role);
            let begin = [Do::Put("x/a", &[80]), Do::Put("x/b", &[25]), Do::ClaimOf(&["x/a", "x/b"])];
            for step in begin.iter().chain(*steps) {
                shared.run(*step);
            }
            assert_eq!(shared.having(), *having, "{role:?}: {description}");
            assert_eq!(shared.clashes(), *clashes, "{role:?}: {description}");
        }
    }
}

#[test]
fn a_port_stays_with_the_service_that_has_it() {
    use Do::{Claim, ClaimGone, ClaimOf, Delete, Put, Restart};
    const A_TAKES: Do = Put("x/a", &[80, 25]);
    const B_FIRST: &str = "x/a: x/b, which had it first";
    check(&[
        ("the older one adds the port of the younger one", &[A_TAKES], &["x/b"], &[B_FIRST]),
        (
            "the younger one adds that of the older one",
            &[Put("x/b", &[25, 80])],
            &["x/a"],
            &["x/b: x/a, which had it first"],
        ),
        ("a new one wants it", &[Put("x/c", &[25])], &["x/a", "x/b"], &["x/c: x/b, which had it first"]),
        ("it names the port twice", &[Put("x/a", &[80, 25, 25])], &["x/b"], &[B_FIRST]),
        ("its own twice", &[Put("x/a", &[80, 80])], &["x/a", "x/b"], &[]),
        ("and the claim says so", &[A_TAKES, Claim], &["x/b"], &[B_FIRST]),
        ("a restart after that", &[A_TAKES, Claim, Restart], &["x/b"], &[B_FIRST]),
        // The order of the claim is all that the next process reads.
        ("a restart before that", &[A_TAKES, Restart], &["x/a"], &["x/b: x/a, which had it first"]),
        (
            "another node wrote the claim otherwise",
            &[A_TAKES, ClaimOf(&["x/a"])],
            &["x/a"],
            &["x/b: x/a, which had it first"],
        ),
        ("it takes the edit back", &[A_TAKES, Put("x/a", &[80])], &["x/a", "x/b"], &[]),
        ("the same, after the claim", &[A_TAKES, Claim, Put("x/a", &[80])], &["x/b", "x/a"], &[]),
        ("the other one gives the port up", &[A_TAKES, Claim, Put("x/b", &[26])], &["x/b", "x/a"], &[]),
        ("the other one is deleted", &[A_TAKES, Claim, Delete("x/b")], &["x/a"], &[]),
        (
            "and is created again",
            &[A_TAKES, Claim, Delete("x/b"), Claim, Put("x/b", &[25])],
            &["x/a"],
            &["x/b: x/a, which had it first"],
        ),
        (
            "created again before the claim is read",
            &[A_TAKES, Delete("x/b"), Put("x/b", &[25])],
            &["x/a"],
            &["x/b: x/a, which had it first"],
        ),
        (
            "the one that adds it is created again",
            &[Delete("x/a"), Put("x/a", &[80, 25])],
            &["x/b"],
            &[B_FIRST],
        ),
        ("both edit", &[A_TAKES, Put("x/b", &[25, 80])], &["x/b"], &["x/a: x/b, which had it first"]),
        (
            "nothing changes when it is evaluated again",
            &[A_TAKES, Put("x/d", &[1]), Delete("x/d")],
            &["x/b"],
            &[B_FIRST],
        ),
        ("the claim is deleted by hand", &[ClaimGone, A_TAKES], &["x/b"], &[B_FIRST]),
    ]);
}

#[test]
fn a_guest_takes_no_port_and_the_owners_namespace_takes_those_of_guests() {
    use Do::{Claim, Put};
    check(&[
        (
            "a guest has it: the owner's namespace takes it",
            &[Put("y/g", &[53]), Claim, Put("x/a", &[80, 53])],
            &["x/a", "x/b"],
            &["y/g: x/a, whose namespace has the VIP"],
        ),
        (
            "another one of that namespace",
            &[Put("y/g", &[53]), Claim, Put("x/b", &[25, 53])],
            &["x/a", "x/b"],
            &["y/g: x/b, whose namespace has the VIP"],
        ),
        (
            "a guest takes none of the owner's",
            &[Put("y/g", &[53]), Claim, Put("y/g", &[53, 25])],
            &["x/a", "x/b"],
            &["y/g: x/b, whose namespace has the VIP"],
        ),
        (
            "a guest that is older on the VIP",
            &[Put("y/g", &[53]), Claim, Put("x/c", &[1]), Claim, Put("y/g", &[53, 1])],
            &["x/a", "x/b", "x/c"],
            &["y/g: x/c, whose namespace has the VIP"],
        ),
        (
            "a guest takes none of another guest's",
            &[Put("y/g", &[53]), Claim, Put("z/h", &[54]), Claim, Put("y/g", &[53, 54])],
            &["x/a", "x/b", "z/h"],
            &["y/g: z/h, which had it first"],
        ),
        (
            "all of the owner's namespace is refused but one",
            &[Put("y/g", &[53]), Claim, Put("x/a", &[80, 25]), Put("x/b", &[25, 53])],
            &["x/b"],
            &["x/a: x/b, which had it first", "y/g: x/b, whose namespace has the VIP"],
        ),
    ]);
}

#[test]
fn a_service_has_its_status_although_its_address_is_reserved_for_one_that_its_ports_keep_out() {
    let mut shared = Shared::new(Role::Controller);
    // What it has reserved, the next process finds.
    let claim = Do::ClaimOf(&["x/a", "x/b"]);
    for step in [Do::Put("x/a", &[80]), Do::Put("x/b", &[25]), claim, Do::Restart] {
        shared.run(step);
    }
    shared.world.node("node-z", &["192.0.2.2"]);
    for step in [Do::Put("x/a", &[80, 25]), Do::Claim] {
        shared.run(step);
    }
    let writes = |name: &str| Command::WriteIngress { service: named(name), addresses: vec![ip(VIP)] };
    assert_eq!(shared.world.duties.values().collect::<Vec<_>>(), [&writes("x/b")]);
    shared.run(Do::Put("x/c", &[1]));
    assert_eq!(shared.world.duties.values().collect::<Vec<_>>(), [&writes("x/b"), &writes("x/c")]);
    shared.run(Do::Put("x/b", &[26]));
    assert_eq!(shared.world.duties.len(), 3, "{:?}", shared.world.duties);
}

#[test]
fn before_a_claim_is_read_a_port_stays_too() {
    let mut shared = Shared::new(Role::Alone);
    for step in [Do::Put("x/a", &[80]), Do::Put("x/b", &[25]), Do::Put("x/a", &[80, 25])] {
        shared.run(step);
    }
    assert_eq!(shared.having(), ["x/b"]);
    shared.run(Do::Put("x/d", &[1]));
    assert_eq!(shared.having(), ["x/b", "x/d"], "and that lasts");
}

const NAMES: [&str; 5] = ["x/a", "x/b", "x/c", "y/g", "z/h"];
const PORTS: [&[u16]; 8] = [&[1], &[2], &[3], &[1, 2], &[2, 3], &[1, 3], &[], &[1, 2, 3]];

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        6 => (prop::sample::select(&NAMES[..]), prop::sample::select(&PORTS[..]))
            .prop_map(|(name, ports)| Do::Put(name, ports)),
        1 => prop::sample::select(&NAMES[..]).prop_map(Do::Delete),
        3 => Just(Do::Claim),
        1 => Just(Do::Restart),
    ]
}

/// Lets one process write the claim, and all read it, until it says what the writer wants.
fn agree(writer: &mut Shared, readers: &mut [&mut Shared]) {
    for _ in 0..4 {
        writer.run(Do::Claim);
        for reader in &mut *readers {
            reader.claim.clone_from(&writer.claim);
            reader.notify_claim();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_services_edit_a_vip_has_an_owner_no_port_twice_and_one_answer(
        steps in prop::collection::vec((step(), any::<bool>()), 1..30),
    ) {
        let mut one = Shared::new(Role::Alone);
        // Another node reads seldom. Its process may begin at another time.
        let mut other = Shared::new(Role::Alone);
        for (step, is_read) in steps {
            let before = one.having();
            let is_named = one.claim.clone();
            one.run(step);
            let having = one.having();
            // A guest inherits nothing while the claim stands.
            let owner = before.first().or_else(|| is_named.as_ref()?.first());
            let wants = |name: &&str| owner.is_none_or(|owner| owner[..1] == name[..1]);
            prop_assert!(!having.is_empty() || !one.ports.keys().any(wants), "after {:?}", step);
            let ports: Vec<u16> = having.iter().flat_map(|name| {
                let own: BTreeSet<u16> = one.ports[name.as_str()].iter().copied().collect();
                own
            }).collect();
            let distinct: BTreeSet<_> = ports.iter().collect();
            prop_assert_eq!(distinct.len(), ports.len(), "{:?} have {:?}", having, ports);
            // Of the owner's namespace, only a Service that is edited itself loses the VIP.
            if let Do::Put(edited, _) | Do::Delete(edited) = step && is_named.as_ref() == Some(&before) {
                let home = |name: &&String| before[0][..1] == name[..1];
                let lost = before.iter().filter(home).find(|name| **name != edited && !having.contains(name));
                prop_assert_eq!(lost, None, "after {:?}", step);
            }
            if is_read {
                if matches!(step, Do::Restart) { other.begin() } else if !matches!(step, Do::Claim) { other.run(step) }
            }
        }
        for name in NAMES {
            match one.ports.get(name).cloned() {
                Some(ports) => {
                    other.created.insert(name, one.created[name]);
                    other.put(name, &ports);
                }
                None if other.ports.contains_key(name) => other.run(Do::Delete(name)),
                None => {}
            }
        }
        agree(&mut one, &mut [&mut other]);
        prop_assert_eq!(other.having(), one.having());
        // The next process decides the same.
        one.begin();
        prop_assert_eq!(one.having(), other.having());
    }
}
