//! Every text is a configuration or is refused with an error, and the effective configuration reads
//! back the same.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use vipward_core::config::Config;

fuzz_target!(|text: &str| {
    match Config::parse(text, "fuzz.yaml", "host") {
        Ok(config) => match Config::parse(&config.to_yaml(), "effective.yaml", "other") {
            Ok(again) => assert_eq!(again, config),
            Err(error) => panic!("{config:?} is written as what is refused: {error}"),
        },
        Err(error) => assert!(error.to_string().starts_with("fuzz.yaml"), "{error}"),
    }
});
