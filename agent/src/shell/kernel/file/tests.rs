use std::{fs, os::unix::net::UnixListener, path::PathBuf, sync::mpsc};

use nix::{sys::stat::Mode, unistd::mkfifo};

use super::*;
use crate::shell::testing::TempDir;

#[test]
fn a_file_is_read_unless_it_is_of_another_kind_or_too_large() {
    let temp = TempDir::new();
    let at = |name: &str| temp.0.join(name);
    fs::write(at("regular"), "vips: []\n").expect("written");
    fs::write(at("bytes"), b"\xff\xfe").expect("written");
    mkfifo(&at("fifo"), Mode::S_IRUSR).expect("a FIFO");
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    let sized = |name: &str, bytes: u64| {
        let file = File::create(at(name)).expect("a file");
        file.set_len(bytes).expect("its size");
    };
    sized("largest", MOST_BYTES);
    sized("too large", MOST_BYTES + 1);
    let table: [(PathBuf, Result<u64, &str>); 9] = [
        (at("regular"), Ok(9)),
        (at("largest"), Ok(MOST_BYTES)),
        (at("too large"), Err("it is larger than 16 MiB")),
        (at("bytes"), Err("stream did not contain valid UTF-8")),
        (at("fifo"), Err("it is a FIFO; give a regular file")),
        (at("socket"), Err("it is a socket or a device; give a regular file")),
        (temp.0.clone(), Err("it is a directory; give a regular file")),
        (PathBuf::from("/dev/zero"), Err("it is a device; give a regular file")),
        (at("nothing"), Err("No such file or directory (os error 2)")),
    ];
    for (path, expected) in table {
        let found = read(&path).map(|text| text.len() as u64).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{}", path.display());
    }
}

#[test]
fn an_error_of_the_system_is_told_from_one_of_the_file() {
    let of = |errno| io::Error::from_raw_os_error(errno);
    let table = [
        (FileError::NotRegular { kind: "a FIFO" }.into(), Cause::File),
        (FileError::TooLarge.into(), Cause::File),
        (io::ErrorKind::InvalidData.into(), Cause::File),
        (of(libc::ENOENT), Cause::Gone),
        (of(libc::ESTALE), Cause::System),
        (of(libc::EIO), Cause::System),
        (of(libc::EMFILE), Cause::System),
        (of(libc::EACCES), Cause::System),
        (FileError::TooMany.into(), Cause::System),
        (FileError::TooSlow.into(), Cause::Slow),
    ];
    for (error, expected) in table {
        assert_eq!(cause(&error), expected, "{error}");
    }
}

#[test]
fn threads_that_wait_are_limited_and_one_that_ends_makes_room() {
    let threads = Threads::default();
    let (sender, ended) = mpsc::channel();
    let mut waiting: Vec<_> = (0..MOST_THREADS)
        .map(|number| {
            let (release, released) = mpsc::channel::<()>();
            let sender = sender.clone();
            let work = move || {
                // Ends when the test drops the other end.
                let _ = released.recv();
                sender.send(number).expect("the test waits");
            };
            threads.run(work).expect("there is room");
            release
        })
        .collect();
    let refused = threads.run(|| {}).expect_err("there is no room");
    assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    drop(waiting.pop());
    ended.recv().expect("it ends");
    while threads.run(|| {}).is_err() {
        thread::yield_now();
    }
}
