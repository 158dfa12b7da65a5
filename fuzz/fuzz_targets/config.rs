//! Any text is a configuration or is refused in words; the effective configuration is read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vipward::core::config::Config;

fuzz_target!(|text: &str| {
    match Config::parse(text, "fuzz.yaml", "host") {
        Ok(config) => match Config::parse(&config.to_yaml(), "effective.yaml", "other") {
            Ok(again) => assert_eq!(again, config),
            Err(error) => panic!("{config:?} is written as what is refused: {error}"),
        },
        Err(error) => assert!(error.to_string().starts_with("fuzz.yaml"), "{error}"),
    }
});
