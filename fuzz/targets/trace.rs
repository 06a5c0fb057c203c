//! A trace that is no trace, or a damaged one: read to its end or to a problem that can be told.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use wiretime_capture::Reader;
use wiretime_hw::wire::Block;

fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = Reader::open(Cursor::new(data.to_vec())) else { return };
    let mut block = Block::default();
    loop {
        match reader.next(&mut block) {
            Ok(true) => {}
            Ok(false) => break,
            Err(problem) => {
                assert!(!problem.to_string().is_empty());
                break;
            }
        }
    }
});
