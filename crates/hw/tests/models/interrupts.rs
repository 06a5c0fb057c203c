//! Interrupts under moderation, as a driver that polls after each has them.

use wiretime_base::Ps;
use wiretime_hw::nic::loopback::Host;
use wiretime_hw::nic::Place;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::Load;

/// Registers of an 8254x.
const ICR: u64 = 0xc0;
const ITR: u64 = 0xc4;
const ICS: u64 = 0xc8;
const IMS: u64 = 0xd0;
const IMC: u64 = 0xd8;
const RECEIVED: u32 = 1 << 7;
const FEW_DESCRIPTORS: u32 = 1 << 4;
const RCTL: u64 = 0x100;

/// A host without a load, or with a light one.
fn host(throttle: Ps) -> Host {
    let p: Platform = toml::from_str(include_str!("../../../../platforms/neoverse-n1.toml")).expect("a platform");
    let load = Load { rate: "1Gbps".parse().expect("a rate"), seed: 1, ..Load::default() };
    let host = Host::new(&p, &load, 256, false).expect("a load");
    write(&host, ITR, (throttle.0 / 256_000) as u32);
    write(&host, IMS, RECEIVED);
    host
}

fn write(host: &Host, offset: u64, value: u32) {
    host.port().write(Place { bar: 0, offset }, &value.to_le_bytes());
}

/// Times at which the pin goes high, of a driver that masks interrupts, polls so long (in turn), and opens the mask again.
fn interrupts(throttle: Ps, polls: &[Ps]) -> Vec<Ps> {
    let mut host = host(throttle);
    host.offer(Ps::from_us(10), Ps::from_us(2000));
    let (mut times, mut until): (Vec<Ps>, Option<Ps>) = (Vec::new(), None);
    for step in 0..20_000 {
        let now = Ps::from_ns(100 * step);
        host.advance(now);
        match until {
            Some(end) if now >= end => {
                host.poll(now, 256);
                until = None;
                write(&host, IMS, RECEIVED);
            }
            Some(_) => {
                host.poll(now, 64);
            }
            None => {}
        }
        let high = host.port().pin(Ps::MAX);
        if high && until.is_none() {
            until = Some(now + polls[times.len() % polls.len()]);
            times.push(now);
            write(&host, IMC, !0);
            host.port().nic.read(Place { bar: 0, offset: ICR }, &mut [0; 4]);
        }
    }
    times
}

/// A long poll outlasts the throttle: what came meanwhile interrupts as soon as the mask is open, and the next one is again
/// a distance away, however short its poll is.
#[test]
fn the_throttle_counts_from_interrupts_that_went_out() {
    let throttle = Ps::from_us(50);
    let times = interrupts(throttle, &[Ps::from_us(60), Ps::from_us(2)]);
    let distances: Vec<Ps> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(times.len() > 30, "{}", times.len());
    assert!(distances.iter().all(|d| *d >= throttle), "{distances:?}");
    assert!(distances.iter().step_by(2).all(|d| *d < Ps::from_us(62)), "{distances:?}");
    assert!(distances.iter().skip(1).step_by(2).all(|d| *d < Ps::from_us(52)), "{distances:?}");
}

#[test]
fn without_a_throttle_each_poll_is_followed_by_the_next_interrupt() {
    let times = interrupts(Ps::ZERO, &[Ps::from_us(2)]);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] < Ps::from_us(5)), "{times:?}");
}

/// What software itself asks for waits, too.
#[test]
fn an_interrupt_that_software_asks_for_waits_for_the_throttle() {
    let mut host = host(Ps::from_us(50));
    let mut high = Vec::new();
    for us in 0..200 {
        host.advance(Ps::from_us(us));
        if us == 10 || us == 20 {
            write(&host, ICS, RECEIVED);
        }
        if host.port().pin(Ps::MAX) {
            high.push(us);
            host.port().nic.read(Place { bar: 0, offset: ICR }, &mut [0; 4]);
        }
    }
    assert_eq!(high, [10, 60]);
}

/// Few free descriptors are a cause once, when half of the ring, or as little as the driver says, is left.
#[test]
fn few_descriptors_are_told_of_once() {
    let told = |divides: u32| {
        let mut host = host(Ps::ZERO);
        write(&host, IMC, !0);
        write(&host, IMS, FEW_DESCRIPTORS);
        let mut control = [0; 4];
        host.port().nic.read(Place { bar: 0, offset: RCTL }, &mut control);
        write(&host, RCTL, u32::from_le_bytes(control) | divides << 8);
        host.offer(Ps::from_us(10), Ps::from_us(2000));
        let mut times = Vec::new();
        for step in 0..20_000 {
            let now = Ps::from_ns(100 * step);
            host.advance(now);
            if host.port().pin(Ps::MAX) {
                times.push(now);
                host.port().nic.read(Place { bar: 0, offset: ICR }, &mut [0; 4]);
            }
        }
        times
    };
    let [half, eighth] = [told(0), told(2)];
    assert_eq!((half.len(), eighth.len()), (1, 1), "{half:?} {eighth:?}");
    let since = |times: &[Ps]| (times[0] - Ps::from_us(10)).as_f64();
    let ratio = since(&eighth) / since(&half);
    assert!((ratio - 224.0 / 128.0).abs() < 0.03, "{ratio}");
}
