use std::net::IpAddr;

use clap::Parser;

use crate::cli::{Cli, Command, Subject};

/// Returns the address that each command understands, or its error.
fn understood(text: &str) -> [Result<IpAddr, String>; 3] {
    [&["move", text, "--to", "n1"][..], &["who-has", text], &["explain", text]].map(|args| {
        let parsed = Cli::try_parse_from(["vipward"].iter().chain(args));
        match parsed.map_err(|error| error.to_string())?.command {
            Command::Move(args) => Ok(args.address),
            Command::WhoHas(args) => Ok(args.address),
            Command::Explain(args) => match args.subject {
                Subject::Address(address) => Ok(address),
                Subject::Service(service) => panic!("{service:?}"),
            },
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn commands_take_every_spelling_of_an_address_and_the_name_of_its_object() {
    let v6 = "2001:db8::10";
    for (text, address) in [
        ("192.0.2.10", "192.0.2.10"),
        ("::ffff:192.0.2.10", "192.0.2.10"),
        (v6, v6),
        ("2001:DB8:0:0::0010", v6),
        ("2001:db8::0.0.0.16", v6),
        ("2001-0db8-0000-0000-0000-0000-0000-0010", v6),
    ] {
        let address: IpAddr = address.parse().expect("an address");
        assert_eq!(understood(text), [Ok(address), Ok(address), Ok(address)], "{text}");
    }
}

#[test]
fn commands_refuse_what_no_host_answers_for() {
    for (text, part) in [
        ("Web", "no address such as"),
        ("192.0.2.10/32", "no address such as"),
        ("2001-db8-0-0-0-0-0-10", "no address such as"),
        ("fe80::1%eth0", "no address such as"),
        ("0.0.0.0", "it is no address: no host"),
        ("0000-0000-0000-0000-0000-0000-0000-0000", "it is no address: no host"),
        ("::1", "every host has for itself"),
        ("ff02::1", "a group's address"),
        ("255.255.255.255", "everybody's address"),
    ] {
        for said in understood(text) {
            let said = said.expect_err(text);
            assert!(said.contains(part), "{text}: {part:?} in {said}");
        }
    }
}
