use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

#[test]
fn the_time_and_the_seed_are_numbers_from_one_on() {
    let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.args);
    let args = parse("search --minutes 5 --seed 7 wire simulation").expect("this is right");
    assert_eq!((args.minutes, args.seed), (5, Some(7)));
    assert_eq!(args.filters, ["wire", "simulation"]);
    let args = parse("search").expect("this is right");
    assert_eq!((args.minutes, args.seed, args.filters.len()), (30, None, 0));
    // A seed of 0 is one that libFuzzer chooses.
    for line in ["search --seed 0", "search --minutes 0", "search --minutes soon"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn filters_choose_parts_which_share_the_time() {
    let targets = || vec!["config".to_owned(), "wire".to_owned()];
    let names = |filters: &[&str]| {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        parts(targets(), &filters).iter().map(|part| part.name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "config wire simulation tests");
    assert_eq!(names(&["wi", "sim"]), "wire simulation");
    assert_eq!(names(&["nothing"]), "");
    assert_eq!(share(2, 4), Duration::from_secs(30));
}
