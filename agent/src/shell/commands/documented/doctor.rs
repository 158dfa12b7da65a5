//! docs/reference/doctor.md: the checks of `vipward doctor`.

use vipward_core::diagnosis::doctor::{CHECKS, Check};

use super::{GENERATED, assert_committed, head, row};

const PAGE: &str = "doctor.md";

#[test]
fn every_check_of_the_doctor_is_in_the_reference() {
    let mut page = format!(
        "# Rows of `vipward doctor`\n\n{GENERATED}\n\n\
         For whoever reads a row and wants to know what it rests on. A check whose fact cannot be read is\n\
         `unknown`, with the reason. [Is all well?](../commands.md#is-all-well) shows how to use it.\n\n"
    );
    page += &head(&["check", "reads", "yellow", "red", "remark"]);
    for Check { name, reads, yellow, red, note, .. } in CHECKS {
        let or_never = |when: Option<&'static str>| when.unwrap_or("–");
        let note = note.unwrap_or_default();
        page += &row(&[&format!("`{name}`"), reads, or_never(yellow), or_never(red), note]);
    }
    assert_committed(PAGE, &page);
}
