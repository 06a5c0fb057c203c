//! A ConnectX against a driver that does anything (chaos/connectx.rs). No panic; and where it is driven as it should be, it
//! works.

use super::chaos::connectx::{drive, Host, BUFFERS, EQ, LOG, RECEIVE_CQ, SEND_CQ, SQ};
use super::chaos::{platform, seeds, Random, MAC};
use wiretime_base::Ps;

#[test]
fn driven_as_it_should_be_it_receives_sends_and_tells() {
    let mut h = Host::new(platform(), 1, "1Gbps");
    assert_eq!((h.read(0) & 0xffff, h.read(4) >> 16, h.read(0x1fc)), (22, 5, 0));
    assert_ne!(h.read(0x1010), h.read(0x1010), "it lives");
    let (key, sq, cq) = h.set_up();
    h.post(0, 1 << LOG);
    h.ring(0x40, &[1 << 24]);
    h.ring(0x20, &[0, cq]);
    h.port.start_traffic(h.now, &mut h.books);
    h.pass(Ps::from_us(20));
    let stats = h.stats();
    assert!(stats.receive.frames > 20, "{stats:?}");
    // As many as there were requests; the others found none.
    assert_eq!(h.word(RECEIVE_CQ + 64 * 15 + 0x2c), 60, "bytes, without check sequence");
    assert_eq!(h.ram.bytes[RECEIVE_CQ as usize + 63], 2 << 4, "received, first turn");
    assert_eq!(h.ram.bytes[BUFFERS as usize..][..6], MAC, "the frame is there");
    assert_eq!((h.messages, h.word(EQ + 0x38)), (1, cq), "and an event says so, once");
    // Two packets in one request, with a completion.
    let words: [u32; 16] =
        [0x29, sq << 8 | 4, 8, 0, 0, 0, 0, 0, 60, key, 0, BUFFERS as u32, 60, key, 0, BUFFERS as u32 + 2048];
    for (i, word) in (0..).zip(words) {
        h.put(SQ + 4 * i, &word.to_be_bytes());
    }
    h.post(1, 1);
    h.ring(0x800, &[0x29, sq << 8 | 4]);
    h.pass(Ps::from_us(5));
    assert_eq!(h.stats().transmit.frames, 2);
    assert_eq!((h.word(SEND_CQ + 0x38), h.ram.bytes[SEND_CQ as usize + 63]), (0x29 << 24 | sq, 0), "sent");
    // A segment in no key: an error, and nothing more is sent.
    let bad: [u32; 12] = [1 << 8 | 0x0a, sq << 8 | 3, 8, 0, 0, 0, 0, 0, 60, key + 1, 0, 0];
    for (i, word) in (0..).zip(bad) {
        h.put(SQ + 64 + 4 * i, &word.to_be_bytes());
    }
    h.post(1, 1);
    h.ring(0x900, &[1 << 8 | 0x0a, sq << 8 | 3]);
    h.pass(Ps::from_us(5));
    assert_eq!((h.ram.bytes[SEND_CQ as usize + 127] >> 4, h.ram.bytes[SEND_CQ as usize + 64 + 0x37]), (13, 4));
    assert_eq!(h.stats().transmit.frames, 2);
    // It is reset under way.
    h.port.reset();
    h.pass(Ps::from_us(5));
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

#[test]
fn packets_that_wait_for_the_link_share_an_entry() {
    let mut h = Host::new(platform(), 1, "90Gbps");
    h.set_up();
    // They come faster than their requests.
    h.post(0, 1 << LOG);
    let before = h.stats().io.memory_writes;
    h.port.start_traffic(h.now, &mut h.books);
    h.pass(Ps::from_us(20));
    let (mut slot, mut titles, mut packets) = (0, 0, 0);
    while packets < 1 << LOG {
        let entry = RECEIVE_CQ + 64 * slot;
        let (kind, count) = (h.ram.bytes[entry as usize + 63], u64::from(h.word(entry + 0x2c)));
        let told = if kind == 2 << 4 | 3 << 2 {
            titles += 1;
            // The list is in the next slot: a hash, which there is none of, and bytes for each.
            let list: Vec<u32> = (0..2 * count).map(|n| h.word(entry + 64 + 4 * n)).collect();
            assert_eq!(list, [0, 60].repeat(count as usize));
            count
        } else {
            assert_eq!((kind, count), (2 << 4, 60), "alone");
            1
        };
        (slot, packets) = (slot + told, packets + told);
    }
    assert_eq!((packets, titles > 0), (1 << LOG, true), "all are told of, none over the ring's end");
    assert!(h.stats().io.memory_writes - before < 2 * packets, "two writes for each that is alone");
    h.pass(Ps::from_us(5));
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

/// Found by fuzzing: what a queue had received was forgotten when it was reset, and the ledger did not balance.
#[test]
fn a_queue_that_is_reset_has_received_what_it_has() {
    let mut h = Host::new(platform(), 1, "1Gbps");
    h.set_up();
    h.post(0, 1 << LOG);
    h.port.start_traffic(h.now, &mut h.books);
    h.pass(Ps::from_us(20));
    for state in [0, 1 << 20] {
        h.command(&Host::of(&[(0, 0x0909_0000), (8, 0x100), (0x20, state)], 0x110));
    }
    h.pass(Ps::from_us(5));
    assert!(h.stats().receive.delivered > 0);
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

fn anything(seed: u64, rounds: u64) {
    let mut h = Host::new(platform(), seed, if seed & 1 == 0 { "1Gbps" } else { "90Gbps" });
    drive(&mut h, &mut Random::new(seed), rounds);
    let stats = h.stats();
    assert!(stats.receive.frames > rounds / 100, "traffic has flowed: {stats:?}");
    assert!(stats.receive.buffer_faults > 0, "faults are counted");
}

#[test]
fn a_driver_that_does_anything() {
    for seed in seeds(&[0x9e37_79b9_7f4a_7c15, 2, 3]) {
        anything(seed, 300_000);
    }
}
