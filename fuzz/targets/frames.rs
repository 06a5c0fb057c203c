//! Frames of any kind that the host sends, to each end that the wire may have: a generator that answers questions, clients of
//! a store, an iperf3 client with a stack of its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wiretime_base::Ps;
use wiretime_fuzz::{machine, Random};
use wiretime_hw::params::Interface;
use wiretime_hw::wire::{Cable, IperfLoad, Load, StoreLoad, Traffic};

const STORE: &str = r#"{"keys": 50, "key_length": [10, 100], "value_length": [10, 100], "length_skew": 0.5, "key_skew": 0.0,
    "get_percent": 80, "port": 11211}"#;
const IPERF: &str = r#"{"protocol": "tcp", "reverse": false, "streams": 2, "length": 1400, "rate": "1Gbps", "window": "256KiB",
    "coalesce": "0ns", "port": 5201}"#;

fn loads() -> [Load; 4] {
    let kind = |traffic| Load { traffic, ..Load::default() };
    let store: StoreLoad = serde_json::from_str(STORE).expect("a store");
    let iperf: IperfLoad = serde_json::from_str(IPERF).expect("a client");
    [
        kind(Traffic::Udp),
        kind(Traffic::Ping),
        Load { store: Some(store), ..kind(Traffic::Memcached) },
        Load { iperf: Some(iperf), ..kind(Traffic::Iperf) },
    ]
}

fuzz_target!(|data: &[u8]| {
    let p = machine(Interface::I8254x);
    let mut random = Random::of_bytes(data);
    let load = loads()[random.below(4) as usize].clone();
    let mut cable =
        Cable::new(&load, 0, (p.link[0].rate, p.link[0].gap_bytes), [0x52, 0x54, 0, 0x12, 0x34, 0x56]).expect("a load");
    let mut now = Ps::ZERO;
    cable.start_at(now);
    while !random.is_over() {
        now += Ps(random.below(2_000_000));
        match random.below(4) {
            0 => {
                if cable.next().departed <= now {
                    let packet = cable.pull(now);
                    let _ = cable.frame(&packet);
                }
            }
            1 => {
                if cable.wakes() <= now {
                    cable.work(now);
                }
            }
            _ => {
                // Bytes of its own, or what it sent itself with some of them changed.
                let mut frame: Vec<u8> = if random.one_in(2) {
                    (0..random.below(128)).map(|_| random.below(256) as u8).collect()
                } else {
                    let packet = cable.next();
                    cable.peek(&packet).to_vec()
                };
                for _ in 0..random.below(4) {
                    if !frame.is_empty() {
                        let at = random.below(frame.len() as u64) as usize;
                        frame[at] = random.below(256) as u8;
                    }
                }
                if !cable.heard(&frame, now) {
                    cable.asked(&frame, now);
                }
            }
        }
    }
    cable.finish(now);
});
