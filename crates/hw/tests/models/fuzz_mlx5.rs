//! A ConnectX against a driver that does anything (chaos/connectx.rs). No panic; and where it is driven as it should be, it
//! works.

use super::chaos::connectx::{drive, usual, Host, BUFFERS, COMMANDS, EQ, LOG, OUTPUT, RECEIVE_CQ, RQ, SEND_CQ, SQ};
use super::chaos::{platform, seeds, Random, MAC};
use wiretime_base::Ps;
use wiretime_hw::nic::Place;
use wiretime_hw::params::Mlx5;
use wiretime_hw::wire::{Block, Cable, Load, Play, Source, TraceClock};

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

/// However soon software arms a queue of events again: a message finds the event that it tells of in memory.
#[test]
fn no_message_comes_before_its_event() {
    let mut h =
        Host::of_card(platform(), (1, "1Gbps"), Mlx5 { compression_timeout: "0ns".parse().unwrap(), ..usual() });
    let (_, _, cq) = h.set_up();
    h.post(0, 1 << LOG);
    h.port.start_traffic(h.now, &mut h.books);
    let (mut consumed, mut random) = (0, Random::new(1));
    while consumed < 500 {
        // Completions are armed at once, events some time later: sometimes one is on its way by then.
        h.ring(0x20, &[consumed, cq]);
        h.pass(Ps::from_ns(random.below(1500)));
        h.ring(0x40, &[1 << 24 | consumed]);
        let messages = h.messages;
        while h.messages == messages {
            h.pass(Ps::from_ns(10));
        }
        let is_there = |n: u32| {
            let at = EQ + 64 * u64::from(n % (1 << LOG));
            h.word(at + 0x38) == cq && u32::from(h.ram.bytes[at as usize + 63] & 1) == n >> LOG & 1
        };
        let events = consumed + (consumed..).take_while(|&n| is_there(n)).count() as u32;
        assert!(events > consumed, "message {} tells of nothing", h.messages);
        h.post(0, (events - consumed) as u16);
        consumed = events;
    }
    // A vector that the function has not is refused.
    let (status, _) = h.command(&Host::of(&[(0, 0x0301_0000), (0x1c, LOG << 24), (0x24, 64)], 0x118));
    assert_eq!(status, 3, "bad parameter");
}

/// Sends a packet by each request of a ring.
fn send_all(h: &mut Host, (key, sq): (u32, u32), length: u32) {
    // The doorbell tells of the last one.
    let last = (1 << LOG) - 1;
    for n in 0..=last {
        let request: [u32; 8] = [n << 8 | 0x0a, sq << 8 | 3, 8, 0, 0, 0, 0, 0];
        let segment = [length, key, 0, BUFFERS as u32 + 2048 * n];
        for (i, word) in (0..).zip(request.into_iter().chain(segment)) {
            h.put(SQ + 64 * u64::from(n) + 4 * i, &word.to_be_bytes());
        }
    }
    h.post(1, 1 << LOG);
    h.ring(0x800, &[last << 8 | 0x0a, sq << 8 | 3]);
}

/// Kind, syndrome and number of the request of a completion; of one that is no error no syndrome.
fn completion(h: &Host, ring: u64, slot: u64) -> (u8, u8, u32) {
    let at = ring + 64 * slot;
    let kind = h.ram.bytes[at as usize + 63] >> 4;
    let syndrome = if kind >= 13 { h.ram.bytes[at as usize + 0x37] } else { 0 };
    (kind, syndrome, h.word(at + 0x3c) >> 16)
}

/// Changes the state of a queue by this command: 0 reset, 1 ready, 3 error.
fn turn(h: &mut Host, opcode: u32, number: u32, state: u32) {
    assert_eq!(h.command(&Host::of(&[(0, opcode << 16), (8, number), (0x20, state << 20)], 0x110)).0, 0);
}

/// As a driver waits for it before it resets the queue: in order, one for each request, and those that come late too.
#[test]
fn all_requests_of_a_send_queue_in_error_complete() {
    const MODIFY_SQ: u32 = 0x905;
    let card = Mlx5 { write_combining: false, ..usual() };
    let mut h = Host::of_card(platform(), (1, "1Gbps"), card);
    let (key, sq, _) = h.set_up();
    let request = |h: &mut Host, n: u32, opcode: u32, keys: &[u32]| {
        let units = 2 + keys.len() as u32;
        let wanted = if n == 3 { 0 } else { 8 };
        let head = [n << 8 | opcode, sq << 8 | units, wanted, 0, 0, 0, 0, 0];
        let segments = keys.iter().flat_map(|&key| [60, key, 0, BUFFERS as u32]);
        for (i, word) in (0..).zip(head.into_iter().chain(segments)) {
            h.put(SQ + u64::from(64 * n + 4 * i), &word.to_be_bytes());
        }
    };
    // The second's second packet lies in no key; the fourth asks for no completion.
    request(&mut h, 0, 0x0a, &[key]);
    request(&mut h, 1, 0x29, &[key, key + 1]);
    request(&mut h, 2, 0, &[]);
    request(&mut h, 3, 0x0a, &[key]);
    request(&mut h, 4, 0x0a, &[key]);
    h.post(1, 5);
    h.ring(0x800, &[4 << 8 | 0x0a, sq << 8 | 3]);
    h.pass(Ps::from_us(5));
    assert_eq!(h.stats().transmit.frames, 2, "what was before it");
    let told = |h: &Host, n| completion(h, SEND_CQ, n);
    assert_eq!([0, 1, 2, 3].map(|n| told(&h, n)), [(0, 0, 0), (13, 4, 1), (13, 5, 2), (13, 5, 4)]);
    assert_eq!(h.word(SEND_CQ + 64 + 0x38), 0x29 << 24 | sq, "what was asked for, and of which queue");
    request(&mut h, 5, 0x0a, &[key]);
    h.post(1, 1);
    h.ring(0x900, &[5 << 8 | 0x0a, sq << 8 | 3]);
    h.pass(Ps::from_us(5));
    assert_eq!((told(&h, 4), h.stats().transmit.frames), ((13, 5, 5), 2));
    // Not without a reset.
    let refused = h.command(&Host::of(&[(0, MODIFY_SQ << 16), (8, sq), (0x20, 1 << 20)], 0x110)).0;
    assert_eq!(refused, 9, "bad resource state");
    // Reset and made ready it sends again.
    let again = |h: &mut Host| {
        turn(h, MODIFY_SQ, sq, 0);
        turn(h, MODIFY_SQ, sq, 1);
        h.posted[1] = 0;
    };
    again(&mut h);
    send_all(&mut h, (key, sq), 60);
    h.pass(Ps::from_us(20));
    assert_eq!(h.stats().transmit.frames, 2 + (1 << LOG));
    // A request of no kind is an error in its turn.
    again(&mut h);
    request(&mut h, 0, 0x0a, &[key]);
    request(&mut h, 1, 0x3f, &[key]);
    h.post(1, 2);
    h.ring(0x800, &[1 << 8 | 0x3f, sq << 8 | 3]);
    h.pass(Ps::from_us(5));
    // Five so far, then a ring of them, and the one before it.
    assert_eq!((told(&h, 6), h.stats().transmit.frames), ((13, 2, 1), 3 + (1 << LOG)));
    // A driver that puts the queue in error itself hears of what it had posted.
    again(&mut h);
    send_all(&mut h, (key, sq), 1514);
    h.pass(Ps::from_ns(700));
    let before = h.stats().transmit.frames;
    turn(&mut h, MODIFY_SQ, sq, 3);
    h.pass(Ps::from_us(100));
    let sent = h.stats().transmit.frames - before;
    assert!(sent < 1 << LOG, "{sent}");
    let last = (7 + (1 << LOG) - 1) % (1 << LOG);
    assert_eq!(told(&h, last), (13, 5, (1 << LOG) - 1));
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

#[test]
fn all_requests_of_a_receive_queue_in_error_complete() {
    const MODIFY_RQ: u32 = 0x909;
    for by_a_command in [false, true] {
        let mut h = Host::new(platform(), 1, "1Gbps");
        let (key, _, _) = h.set_up();
        if !by_a_command {
            h.put(RQ + 16 + 4, &(key + 1).to_be_bytes());
        }
        h.post(0, 1 << LOG);
        h.port.start_traffic(h.now, &mut h.books);
        while h.stats().receive.delivered == 0 {
            h.pass(Ps::from_ns(100));
        }
        if by_a_command {
            turn(&mut h, MODIFY_RQ, 0x100, 3);
        }
        h.pass(Ps::from_us(20));
        assert_eq!(h.stats().receive.delivered, 1);
        let told: Vec<_> = (0..1 << LOG).map(|n| completion(&h, RECEIVE_CQ, n)).collect();
        let mut wanted: Vec<_> = (0..1 << LOG).map(|n| (14, 5, n)).collect();
        wanted[0] = (2, 0, 0);
        if !by_a_command {
            wanted[1].1 = 4;
        }
        assert_eq!(told, wanted);
        // Reset and made ready it receives again; a packet that is longer than its request costs that one alone.
        h.put(RQ + 16 + 4, &key.to_be_bytes());
        h.put(RQ + 32, &20u32.to_be_bytes());
        turn(&mut h, MODIFY_RQ, 0x100, 0);
        turn(&mut h, MODIFY_RQ, 0x100, 1);
        h.pass(Ps::from_us(20));
        assert_eq!(h.stats().receive.delivered, (1 << LOG));
        // The first two may share an entry.
        assert_eq!([2, 3].map(|n| completion(&h, RECEIVE_CQ, n)), [(14, 1, 2), (2, 0, 3)]);
        assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
    }
}

/// What had been sent leaves, but its room in the buffer is the new life's.
#[test]
fn frames_that_a_reset_finds_on_the_wire_are_nobodys() {
    let mut h = Host::new(platform(), 1, "1Gbps");
    let (key, sq, _) = h.set_up();
    send_all(&mut h, (key, sq), 1514);
    while h.stats().transmit.frames < 3 {
        h.pass(Ps::from_ns(20));
    }
    h.port.reset();
    h.write(0x10, 0);
    h.write(0x14, COMMANDS as u32);
    h.posted = [0; 2];
    h.pass(Ps::from_us(5));
    let before = h.stats().transmit.frames;
    let (key, sq, _) = h.set_up();
    send_all(&mut h, (key, sq), 1514);
    h.pass(Ps::from_us(10));
    assert_eq!(h.stats().transmit.frames - before, 1 << LOG);
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

#[test]
fn a_failure_of_the_firmware_is_told_and_a_reset_ends_it() {
    let mut h = Host::of_card(platform(), (1, "1Gbps"), Mlx5 { fails_at: "100us".parse().unwrap(), ..usual() });
    h.set_up();
    h.post(0, 1 << LOG);
    h.port.start_traffic(h.now, &mut h.books);
    h.pass(Ps::from_us(20));
    assert!(h.stats().receive.frames > 0);
    assert_eq!((h.read(0x1fc), h.read(0x238), h.read(0x23c)), (0, 0, 0), "healthy");
    h.pass(Ps::from_us(100));
    let life = h.read(0x1010);
    assert_eq!((h.read(0x1fc), h.read(0x238), h.read(0x23c)), (1 << 30, 0x82 << 24, 1 << 16), "critical, by a reset");
    let mut syndrome = [0];
    h.port.read(Place { bar: 0, offset: 0x23d }, &mut syndrome);
    assert_eq!(syndrome, [1], "as a byte, too");
    assert_ne!(h.read(0x1010), life, "the segment is there");
    assert_eq!(h.command(&Host::of(&[(0, 0x0300_0000)], 16)).0, u8::MAX, "no command is answered");
    let taken = h.stats().receive.delivered;
    h.pass(Ps::from_us(20));
    assert_eq!(h.stats().receive.delivered, taken, "and nothing is received");
    // The driver resets it, sees that it is off, and sets it up anew.
    h.write(0x14, 7 << 8);
    assert_eq!((h.read(0x14) >> 8 & 7, h.read(0x238)), (1, 0));
    h.write(0x10, 0);
    h.write(0x14, COMMANDS as u32);
    h.posted = [0; 2];
    h.set_up();
    h.post(0, 1 << LOG);
    h.pass(Ps::from_us(200));
    assert_eq!((h.stats().receive.delivered - taken, h.read(0x23c)), (1 << LOG, 0), "once is enough");
    assert!(h.port.audit(&h.books).is_empty(), "{:?}", h.port.audit(&h.books));
}

/// What a driver sees of a card that receives and sends, every 100 ns.
fn seen(card: Mlx5) -> Vec<u64> {
    let mut h = Host::of_card(platform(), (1, "90Gbps"), card);
    let (status, _) = h.command(&Host::of(&[(0, 0x0100_0000)], 16));
    let mut seen = vec![status.into(), u64::from(h.word(OUTPUT + 0x4c))];
    let (key, sq, _) = h.set_up();
    h.post(0, 1 << LOG);
    h.port.start_traffic(h.now, &mut h.books);
    // As many requests as fit the queue, each of a block and of one packet.
    send_all(&mut h, (key, sq), 60);
    for _ in 0..200 {
        h.pass(Ps::from_ns(100));
        let s = h.stats();
        let rings = (RECEIVE_CQ..RECEIVE_CQ + 1024).step_by(4).map(|at| u64::from(h.word(at))).sum::<u64>();
        seen.extend([s.transmit.frames, s.receive.delivered, s.io.memory_writes, s.io.memory_reads, rings]);
    }
    seen.push(h.read(0x238).into());
    seen
}

#[test]
fn every_parameter_matters() {
    let time = |text: &str| text.parse().unwrap();
    let before = seen(usual());
    let others = [
        ("write_combining", Mlx5 { write_combining: false, ..usual() }),
        ("record_before_requests", Mlx5 { record_before_requests: false, ..usual() }),
        ("receive_requests_ahead", Mlx5 { receive_requests_ahead: 2, ..usual() }),
        ("send_blocks_a_read", Mlx5 { send_blocks_a_read: 1, ..usual() }),
        ("send_blocks_ahead", Mlx5 { send_blocks_ahead: 4, ..usual() }),
        ("compression_timeout", Mlx5 { compression_timeout: time("0ns"), ..usual() }),
        ("compression_after", Mlx5 { compression_after: 1000, ..usual() }),
        ("read_time", Mlx5 { read_time: time("30ns"), ..usual() }),
        ("request_line_time", Mlx5 { request_line_time: time("30ns"), ..usual() }),
        ("send_packet_time", Mlx5 { send_packet_time: time("100ns"), ..usual() }),
        ("fails_at", Mlx5 { fails_at: time("60us"), ..usual() }),
        ("queues_fail_at", Mlx5 { queues_fail_at: time("1us"), ..usual() }),
    ];
    for (name, other) in others {
        assert!(seen(other) != before, "{name} moves nothing");
    }
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

/// Frames of a trace, each of its own bytes.
struct Frames(u8);

impl Source for Frames {
    fn fill(&mut self, block: &mut Block) {
        for n in self.0..1 << LOG {
            block.push(Ps(u64::from(n)), &[n; 80], &[], 80);
        }
        self.0 = 1 << LOG;
    }
    fn rewind(&mut self) {
        self.0 = 0;
    }
}

/// Frames that wait in the buffer keep their bytes, whatever arrives behind them.
#[test]
fn frames_that_wait_are_delivered_as_they_came() {
    let p = platform();
    let play = Play { clock: TraceClock::Captured { millionths: 1_000_000 }, loops: 1, mean_length: 84.0 };
    let load = Load { play: Some(play), ..Load::default() };
    let mut cable = Cable::new(&load, 0, (p.link[0].rate, p.link[0].gap_bytes), MAC).expect("a load");
    cable.set_source(Box::new(Frames(0)));
    let mut h = Host::at(p, cable, usual());
    h.set_up();
    h.post(0, 1 << LOG);
    // Some requests are here, the others have to be fetched meanwhile.
    h.pass(Ps::from_us(10));
    h.port.start_traffic(h.now, &mut h.books);
    h.pass(Ps::from_us(20));
    let last: Vec<u8> = (0..1 << LOG).map(|n| h.ram.bytes[(BUFFERS + 2048 * n) as usize + 79]).collect();
    assert_eq!(last, (0..1 << LOG).collect::<Vec<u8>>());
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
    h.pass(Ps::from_us(5));
    let stats = h.stats();
    assert!(stats.receive.frames > rounds / 100, "traffic has flowed: {stats:?}");
    assert!(stats.receive.buffer_faults + stats.transmit.buffer_faults > 0, "faults are counted");
    let problems = h.port.audit(&h.books);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_driver_that_does_anything() {
    for seed in seeds(&[0x9e37_79b9_7f4a_7c15, 2, 3]) {
        anything(seed, 300_000);
    }
}
