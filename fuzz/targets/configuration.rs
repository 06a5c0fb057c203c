//! Platforms and models of software that say anything: refused with a reason, or a machine that can be built.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wiretime_hw::params::Platform;
use wiretime_packet::CostModel;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(platform) = toml::from_str::<Platform>(text) {
        match platform.check() {
            // As it is passed on.
            Ok(()) => {
                let json = serde_json::to_string(&platform).expect("can be written");
                let again: Platform = serde_json::from_str(&json).expect("can be read");
                assert!(again.check().is_ok());
            }
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    for model in [toml::from_str::<CostModel>(text).ok(), serde_json::from_str::<CostModel>(text).ok()] {
        if let Some(Err(e)) = model.map(|m| m.check()) {
            assert!(!e.to_string().is_empty());
        }
    }
});
