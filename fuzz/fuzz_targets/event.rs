//! Any bytes are an `events` record or none, and a record is written back as it was read.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use vipward_common::Event;

fuzz_target!(|bytes: &[u8]| {
    if let Some(event) = Event::from_bytes(bytes) {
        assert_eq!(bytemuck::bytes_of(&event), bytes);
        assert!(!format!("{event:?}").is_empty());
    }
});
