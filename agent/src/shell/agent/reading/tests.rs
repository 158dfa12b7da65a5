use std::path::Path;

use super::*;
use crate::shell::testing::TempDir;

fn reading(temp: &TempDir) -> Reading {
    Reading::start(temp.0.join("vipward.yaml")).expect("it is watched")
}

fn good() -> News {
    let path = Path::new("vipward.yaml");
    News::Parsed(parse_config(path, Ok("vips: []\n".to_owned())).map(Box::new))
}

#[tokio::test]
async fn a_late_answer_counts_if_no_newer_attempt_has_begun() {
    // Description, the number of the answer, and whether it counts.
    for (what, number, counts) in [("the newest", 2, true), ("an older one", 1, false)] {
        let temp = TempDir::new();
        let mut reading = reading(&temp);
        reading.attempts = 2;
        let slow = Read { result: Err(reading.failed(FileError::TooSlow.into())), reclaim: false };
        assert_eq!(reading.on_read(slow).config, Err(Unread::Unknown), "{what}");
        assert!(reading.retry.is_none(), "{what}: the attempt goes on");
        assert!(reading.on_news(number, News::Read).is_none(), "{what}");
        let read = reading.on_news(number, good());
        assert_eq!(read.is_some(), counts, "{what}");
        if let Some(read) = read {
            assert!(reading.on_read(read).config.is_ok(), "{what}");
        }
        assert_eq!(reading.is_refused(), !counts, "{what}");
        assert!(reading.wanted.is_none(), "{what}: it is not read again, to be late again");
    }
}

#[tokio::test]
async fn a_file_that_the_system_did_not_read_is_read_again() {
    let of = |errno| io::Error::from_raw_os_error(errno);
    let table = [
        ("EIO", of(libc::EIO), Unread::Unknown, true),
        ("ESTALE", of(libc::ESTALE), Unread::Unknown, true),
        ("too many", FileError::TooMany.into(), Unread::Unknown, true),
        ("gone", of(libc::ENOENT), Unread::Faulty, true),
        ("too large", FileError::TooLarge.into(), Unread::Faulty, false),
    ];
    for (what, error, expected, is_retried) in table {
        let temp = TempDir::new();
        let mut reading = reading(&temp);
        let read = Read { result: Err(reading.failed(error)), reclaim: false };
        assert_eq!(reading.on_read(read).config, Err(expected), "{what}");
        assert_eq!(reading.retry.is_some(), is_retried, "{what}");
    }
    let temp = TempDir::new();
    let mut reading = reading(&temp);
    let result = parse_config(&reading.path, Ok("vip: []\n".to_owned())).map(Box::new);
    assert_eq!(reading.on_read(Read { result, reclaim: false }).config, Err(Unread::Faulty));
    assert!(reading.retry.is_none(), "its content does not change by itself");
}
