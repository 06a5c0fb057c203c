use super::super::descriptors::Tx;
use super::*;
use crate::nic::blocks::checks::Checks;
use crate::nic::blocks::offload::Offload;
use crate::nic::LocalPages;

const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

fn registers() -> Registers<LocalPages> {
    Registers::new(MAC, LocalPages::new(SHARED))
}

/// What drivers do before they trust the device, item by item.
#[test]
fn bring_up() {
    let mut r = registers();
    // Primary disable, then reset: both clear themselves.
    assert_eq!(r.read(reg::STATUS), STATUS_GIO);
    assert_eq!(r.write(reg::CTRL, 4), Action::None);
    assert_eq!((r.read(reg::CTRL), r.read(reg::STATUS)), (4, 0));
    assert_eq!(r.write(reg::CTRL, 4 | 1 << 26), Action::Reset);
    assert_eq!((r.read(reg::CTRL), r.read(reg::STATUS)), (0, STATUS_GIO));
    // EEPROM: present, auto-read done, checksum over its words.
    assert_eq!(r.read(reg::EEC) & 0x300, 0x300);
    let mut word = |address: u32| {
        r.write(reg::EERD, address << 2 | 1);
        assert_eq!(r.read(reg::EERD) & 2, 2, "done at once");
        (r.read(reg::EERD) >> 16) as u16
    };
    assert_eq!((0..=0x3f).fold(0u16, |sum, a| sum.wrapping_add(word(a))), 0xbaba);
    assert_eq!((word(0x0f), word(0x2000)), (0xffff, 0xffff));
    // Link up, at once and for ever; negotiation keeps what is written, but for its start bit.
    r.write(reg::AUTOC, 0x3000_2280 | 1 << 12);
    assert_eq!(r.read(reg::AUTOC), 0x3000_2280);
    r.write(reg::LINKS, 0);
    assert_eq!((r.read(reg::LINKS) >> 28, r.read(reg::ANLP1) >> 16 & 0xf), (0xf, 1));
    // Semaphores are memory; no PHY answers; the address filter holds the address.
    for semaphore in [0x1_0140, 0x1_0160] {
        r.write(semaphore, 3);
        assert_eq!(r.read(semaphore), 3);
    }
    r.write(reg::MSCA, 1 << 30 | 5);
    assert_eq!((r.read(reg::MSCA), r.read(reg::MSRWD)), (5, 0));
    assert_eq!((r.read(reg::RAL0), r.read(reg::RAL0 + 4)), (0x1200_5452, 0x8000_5634));
    assert_eq!(r.read(0xa200), 0x1200_5452, "by its other name");
    // Done bits.
    assert_eq!((r.read(reg::RDRXCTL) & 8, r.read(reg::SECRXSTAT) & 1, r.read(reg::SECTXSTAT) & 1), (8, 1, 1));
    r.write(reg::FDIRCTRL, 0x10);
    assert_eq!(r.read(reg::FDIRCTRL), 0x18);
    // A queue: enabled as written, flushes clear themselves, by both names.
    assert_eq!(r.write(0x1028, 1 << 25 | 1 << 26), Action::Switched(Side::Receive));
    assert_eq!(r.read(0x1028), 1 << 25);
    assert_eq!(r.write(0x6028 + 0x40, 1 << 25), Action::Switched(Side::Transmit));
    assert_eq!(r.read(0x6068), 1 << 25);
    r.write(0x2104, 0x1200_0002);
    assert_eq!((r.read(0x1054), r.drops_when_empty(1), r.buffer_size(1)), (0x1200_0002, true, 2048));
    assert!(!r.ring(Side::Receive, 0).enabled, "the unit is off");
    r.write(reg::RXCTRL, 1);
    assert!(r.ring(Side::Receive, 0).enabled);
    assert_eq!(r.write(0x1018 + 0x40 * 5, 31), Action::Tail(0x1158, 31));
    assert_eq!(r.tail_at(0x6018 + 0x40 * 15), Some((Side::Transmit, 15)));
    assert_eq!((r.tail_at(0x1014), r.tail_at(0xd018)), (None, None));
}

#[test]
fn statistics_clear_when_read() {
    let mut r = registers();
    r.write(0x2300, 3 << 8); // queue 1 counts in set 3
    for _ in 0..3 {
        r.count_received(1, &MAC, 64);
    }
    r.count_missed(0, false);
    r.count_queue_drop(1);
    assert_eq!((r.read(0x1030), r.read(0x1030 + 3 * 0x40), r.read(0x1030 + 3 * 0x40)), (0, 3, 0));
    assert_eq!(
        (r.read(0x1034 + 0xc0), r.read(0x1034 + 0xc0), r.read(0x1038 + 0xc0), r.read(0x1034 + 0xc0)),
        (180, 180, 0, 0)
    );
    assert_eq!((r.read(0x4074), r.read(0x4088), r.read(0x405c)), (4, 180, 3), "without FCS, which is stripped");
    assert_eq!((r.read(0x3fa0), r.read(0x3fa0), r.read(0x1430 + 0xc0)), (1, 0, 1));
    r.count_sent(0, 64);
    assert_eq!((r.read(0x4080), r.read(0x4090), r.read(0x8700)), (1, 64, 60));
}

fn udp(source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut f = vec![0u8; 60];
    f[..6].copy_from_slice(&MAC);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14] = 0x45;
    f[16..18].copy_from_slice(&46u16.to_be_bytes());
    f[23] = 17;
    f[26..30].copy_from_slice(&source);
    f[30..34].copy_from_slice(&destination);
    f[34..36].copy_from_slice(&ports[0].to_be_bytes());
    f[36..38].copy_from_slice(&ports[1].to_be_bytes());
    f
}

/// The published vectors through registers, in the order of bytes that drivers use.
#[test]
fn receive_side_scaling() {
    let mut r = registers();
    let key = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfau8,
    ];
    for (i, k) in key.chunks(4).enumerate() {
        r.write(reg::RSSRK + 4 * i as u64, u32::from_le_bytes([k[0], k[1], k[2], k[3]]));
    }
    for i in 0..32u32 {
        let first = 4 * i % 16;
        r.write(reg::RETA + u64::from(4 * i), first | (first + 1) << 8 | (first + 2) << 16 | (first + 3) << 24);
    }
    r.write(reg::RXCTRL, 1);
    let frame = udp([66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766]);
    assert_eq!(r.steer(&frame), Steering::default(), "off");
    r.write(reg::MRQC, 1 | 1 << 17);
    let s = r.steer(&frame);
    assert_eq!((s.hash, s.hash_type, s.queue), (0x323e_8fc2, 2, 2), "addresses only");
    r.write(reg::MRQC, 1 | 1 << 17 | 1 << 22);
    let s = r.steer(&frame);
    assert_eq!((s.hash, s.hash_type, s.queue), (0x51cc_c178, 7, 8));
    let mut arp = frame;
    arp[13] = 6;
    assert_eq!(r.steer(&arp), Steering::default(), "neither");
}

#[test]
fn filters() {
    use Acceptance::{NotOurs, Taken, TooLong};
    let mut r = registers();
    let all_hosts = [1, 0, 0x5e, 0, 0, 1];
    assert_eq!(
        [r.accepts(&MAC, 1518, false), r.accepts(&MAC, 1519, false), r.accepts(&[2; 6], 64, false)],
        [Taken, TooLong, NotOurs]
    );
    assert_eq!(r.accepts(&[0xff; 6], 64, false), NotOurs);
    r.write(reg::FCTRL, 1 << 10);
    assert_eq!([r.accepts(&[0xff; 6], 64, false), r.accepts(&all_hosts, 64, false)], [Taken, NotOurs]);
    r.write(reg::FCTRL, 3 << 8);
    assert_eq!([r.accepts(&[2; 6], 64, false), r.accepts(&all_hosts, 64, false)], [Taken, Taken]);
    r.write(reg::HLREG0, 0x1_0c07);
    r.write(reg::MAXFRS, 9018 << 16);
    assert_eq!([r.accepts(&MAC, 9018, false), r.accepts(&MAC, 9019, false)], [Taken, TooLong]);
    assert_eq!([r.accepts(&MAC, 9022, true), r.accepts(&MAC, 9023, true)], [Taken, TooLong]);
}

#[test]
fn interrupts_go_where_ivar_says() {
    let mut r = registers();
    assert_eq!(r.vector(InterruptCause::Received(0)), (0, 0), "not valid");
    r.write(interrupts::IVAR + 4, 0x8584_8382);
    assert_eq!(r.vector(InterruptCause::Received(2)), (2, 1));
    assert_eq!(r.vector(InterruptCause::Transmitted(2, false)), (3, 1));
    assert_eq!(
        [r.vector(InterruptCause::Received(3)), r.vector(InterruptCause::Transmitted(3, true))],
        [(4, 1), (5, 1)]
    );
    r.write(interrupts::eitr(2), 0x8000_0000 | 25 << 3);
    assert_eq!(r.throttle(2), Ps(25 * 2_048_000));
}

#[test]
fn descriptors_of_both_directions() {
    let checks = Checks { l3: L3::V4, l4: L4::Udp, l3_bad: false, l4_checked: true, l4_bad: true };
    let steering = Steering { queue: 3, hash_type: 7, hash: 0x1234_5678 };
    let c = Completion { buffer: 0x1000, length: 60, last: true, steering, checks, vlan: None };
    let d = descriptors::write_back(&c);
    let w = |i: usize| u32::from_le_bytes([d[i], d[i + 1], d[i + 2], d[i + 3]]);
    assert_eq!((w(0), w(4), w(12)), (7 | 1 << 4 | 1 << 9, 0x1234_5678, 60));
    assert_eq!(w(8), 0b111_0011 | 1 << 30);
    let part = descriptors::write_back(&Completion { last: false, ..c });
    assert_eq!(part[8], 1, "done, but not the end");
    let tagged = Completion { vlan: Some(0x2005), ..c };
    let d = descriptors::write_back(&tagged);
    assert_eq!((d[8], &d[14..]), (0b111_1011, &[5, 0x20][..]));
    assert_eq!(descriptors::write_back(&Completion { last: false, ..tagged })[14..], [0, 0]);
    // Context: 14 + 20 + 20 bytes of headers, TCP over IPv4, MSS 1460, slot 1.
    let mut d = [0u8; 16];
    d[..4].copy_from_slice(&(20u32 | 14 << 9).to_le_bytes());
    d[8..12].copy_from_slice(&(1u32 << 29 | 2 << 20 | 1 << 10 | 1 << 11).to_le_bytes());
    d[12..].copy_from_slice(&(1u32 << 4 | 20 << 8 | 1460 << 16).to_le_bytes());
    let Tx::Context(c, slot) = descriptors::transmit(&d).kind else { panic!("{d:?}") };
    assert_eq!((c.ip, c.l4, c.header, c.mss, slot), ([14, 24, 33], [34, 50, 0], 54, 1460, 1));
    assert!(c.tcp && c.ipv4);
    // A VLAN tag in a context, and in a legacy descriptor.
    d[2..4].copy_from_slice(&0x2005u16.to_le_bytes());
    let Tx::Context(context, _) = descriptors::transmit(&d).kind else { panic!("{d:?}") };
    for (command, tag) in [(0x6b30_0000u32, Some(0x2005)), (0x4b00_0000, Some(7)), (0x2b30_0000, None)] {
        let mut d = [0u8; 16];
        d[8..12].copy_from_slice(&(command | 60).to_le_bytes());
        d[14..].copy_from_slice(&7u16.to_le_bytes());
        let Tx::Data(data) = descriptors::transmit(&d).kind else { panic!("{d:?}") };
        assert_eq!(Offload { wants: data.wants, context }.tag(), tag, "{command:x}");
    }
    // What vector drivers write.
    let mut d = [0u8; 16];
    d[..8].copy_from_slice(&0x1234_5000u64.to_le_bytes());
    d[8..12].copy_from_slice(&(0x2b30_0000u32 | 60).to_le_bytes());
    d[12..].copy_from_slice(&(60u32 << 14).to_le_bytes());
    let t = descriptors::transmit(&d);
    let Tx::Data(data) = t.kind else { panic!("{d:?}") };
    assert_eq!((data.buffer, data.length, data.eop, t.report), (0x1234_5000, 60, true, true));
    assert_eq!(t.done()[4] & 1, 1);
}
