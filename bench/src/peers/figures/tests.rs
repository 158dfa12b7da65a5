use super::{Figures, Scene, System, Unit};
use crate::report::Machine;

fn figures() -> Figures {
    let mut figures = Figures::new(Machine::read().expect("this machine"), 3);
    figures.versions.insert(System::Vipward, "vipward 0.1.0".to_owned());
    figures.versions.insert(System::Kernel, "Linux 6.1".to_owned());
    figures.skipped.insert(System::Ucarp, "ucarp is missing: run `cargo xtask setup`".to_owned());
    figures
}

#[test]
fn a_row_has_the_median_and_the_worst_of_each_system() {
    let mut figures = figures();
    for value in [3.0, 1.0, 2.0] {
        figures.record(Scene::Crash, "time", Unit::Seconds, System::Vipward, value);
        figures.record(Scene::Askers, "answered", Unit::Share, System::Kernel, value / 10.0);
    }
    figures.record(Scene::Crash, "lost", Unit::Count, System::Vipward, 0.0);
    let cells = |name: &str| figures.lines().into_iter().find(|line| line[0] == name).expect("a row");
    assert_eq!(cells("crash: time")[1..], ["2.00 s / 3.00 s", "–"]);
    assert_eq!(cells("crash: lost")[1..], ["0", "–"], "the same value is shown once");
    assert_eq!(cells("askers: answered")[1..], ["–", "20 % / 10 %"], "here the least is the worst");
}

#[test]
fn a_missing_system_has_no_column_and_is_named_with_the_way_to_get_it() {
    let text = figures().to_string();
    let header = text.lines().next().expect("a header");
    assert!(
        header.contains("Vipward") && header.contains("the kernel") && !header.contains("ucarp"),
        "{text}"
    );
    assert!(text.contains("- ucarp was skipped: ucarp is missing: run `cargo xtask setup`"), "{text}");
    assert_eq!(figures().json()["skipped"]["ucarp"], "ucarp is missing: run `cargo xtask setup`");
}
