use nix::errno::Errno;

use super::{PingerError, guarded, system};

#[test]
fn a_panic_is_an_error_that_says_what_it_said() {
    let text = |run: fn() -> Result<(), PingerError>| guarded(run).err().map(|error| error.to_string());
    assert_eq!(text(|| Ok(())), None);
    assert_eq!(text(|| Err(system("wait")(Errno::EBADF))), Some("failed to wait".to_owned()));
    assert_eq!(text(|| panic!("no slot")), Some("the thread has panicked: no slot".to_owned()));
    let number = 7;
    assert_eq!(
        guarded(|| panic!("slot {number}")).err().map(|error| error.to_string()),
        Some("the thread has panicked: slot 7".to_owned())
    );
}
