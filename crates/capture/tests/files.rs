//! Capture files: ours, other tools', damaged ones.

use proptest::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use wiretime_base::Ps;
use wiretime_capture::{summary, Reader, Summary, Trace, Writer};
use wiretime_hw::wire::{Block, Passage, Seen, Source};

/// A pcap file in either byte order: packets of time in seconds and microseconds, captured bytes, length.
fn pcap(big: bool, link: u32, packets: &[(u32, u32, Vec<u8>, u32)]) -> Vec<u8> {
    let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut f = [word(0xa1b2_c3d4), version, word(0), word(0), word(65535), word(link)].concat();
    for (seconds, micros, data, length) in packets {
        f.extend([word(*seconds), word(*micros), word(data.len() as u32), word(*length)].concat());
        f.extend(data);
    }
    f
}

fn ethernet(n: usize) -> Vec<u8> {
    (0..n).map(|i| i as u8).collect()
}

fn packets(file: Vec<u8>) -> Result<Vec<(Ps, Vec<u8>)>, String> {
    let mut reader = Reader::open(std::io::Cursor::new(file)).map_err(|p| p.to_string())?;
    let mut found = Vec::new();
    loop {
        let mut block = Block::default();
        match reader.next(&mut block) {
            Ok(true) => {
                let (at, frame) = block.get(0).expect("one");
                found.push((at, frame.to_vec()));
            }
            Ok(false) => return Ok(found),
            Err(p) => return Err(p.to_string()),
        }
    }
}

fn stored(name: &str, data: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("wiretime-capture-{}-{name}", std::process::id()));
    std::fs::File::create(&path).and_then(|mut f| f.write_all(data)).expect("a file");
    path
}

fn summed(name: &str, data: &[u8]) -> Summary {
    let path = stored(name, data);
    let s = summary(std::fs::File::open(&path).expect("just written"));
    std::fs::remove_file(path).expect("it is there");
    s
}

#[test]
fn both_byte_orders_and_times() {
    let list = [
        (1_700_000_000, 999_999, ethernet(100), 100),
        (1_700_000_001, 1, ethernet(60), 60),
        (1_700_000_001, 0, ethernet(20), 1000),
    ];
    for big in [false, true] {
        let found = packets(pcap(big, 1, &list)).unwrap();
        assert_eq!(found.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 2_000_000, 1_000_000].map(Ps));
        assert_eq!(found.iter().map(|p| p.1.len()).collect::<Vec<_>>(), [100, 60, 1000]);
        assert_eq!((&found[2].1[..20], &found[2].1[20..]), (&ethernet(20)[..], &[0u8; 980][..]));
    }
    let s = summed("orders", &pcap(false, 1, &list));
    assert_eq!((s.packets, s.bytes, s.shortest, s.longest, s.span), (3, 1172, 64, 1004, Ps::from_us(2)));
    assert_eq!((s.out_of_order, s.cut, s.problem), (1, 1, None));
}

#[test]
fn packets_from_before_the_first_are_told_of() {
    let list = [1010, 1000, 1001, 1002].map(|s| (s, 0, ethernet(60), 60));
    let s = summed("early", &pcap(false, 1, &list));
    assert_eq!((s.packets, s.out_of_order, s.span), (4, 3, Ps::ZERO));
}

#[test]
fn link_types() {
    let ip = |version: u8| [vec![version << 4 | 5], vec![0; 39]].concat();
    let one = |link, data: Vec<u8>| {
        let n = data.len() as u32;
        packets(pcap(false, link, &[(0, 0, data, n)]))
    };
    assert_eq!(one(101, ip(4)).unwrap()[0].1[6..15], [2, 0, 0, 0, 0, 1, 8, 0, 0x45]);
    assert_eq!(one(229, ip(6)).unwrap()[0].1[12..15], [0x86, 0xdd, 0x65]);
    assert_eq!(one(0, [vec![2, 0, 0, 0], ip(4)].concat()).unwrap()[0].1[12..15], [8, 0, 0x45]);
    let cooked = [vec![0; 14], vec![8, 6], vec![7; 28]].concat();
    assert_eq!(one(113, cooked).unwrap()[0].1[12..15], [8, 6, 7]);
    // Four bytes of FCS, which the header tells.
    assert_eq!(one(1 | 1 << 26 | 2 << 28, ethernet(104)).unwrap()[0].1.len(), 100);
    assert!(one(105, ip(4))
        .unwrap_err()
        .contains("link type 105 (IEEE 802.11) cannot be sent on Ethernet: allowed are"));
    assert!(one(101, vec![0x15; 40]).unwrap_err().contains("no packet of its link type"));
    assert!(one(1, ethernet(13)).unwrap_err().contains("13 B are too few"));
    assert!(one(1, ethernet(8997)).unwrap_err().contains("9001 B with FCS are more than the 9000 B"));
}

/// Wherever a file ends, what is before it is there, and the error says which packet does not.
#[test]
fn truncated_files() {
    let whole = pcap(false, 1, &[(0, 0, ethernet(60), 60), (0, 1, ethernet(60), 60), (0, 2, ethernet(60), 60)]);
    for end in 24..whole.len() {
        let s = summed("cut", &whole[..end]);
        let complete = (end - 24) / 76;
        assert_eq!(s.packets as usize, complete, "{end}");
        if (end - 24) % 76 == 0 {
            assert_eq!(s.problem, None);
        } else {
            let text = s.problem.expect("a problem").to_string();
            assert_eq!(
                text,
                format!("packet {} at byte {}: the file ends inside it", complete + 1, 24 + complete * 76)
            );
        }
    }
    for (data, what) in [
        (&b""[..], "is empty"),
        (&whole[..10], "ends inside its header"),
        (b"GIF89a, and more of it than a header has", "neither pcap nor pcapng"),
    ] {
        assert!(summed("head", data).problem.expect("a problem").to_string().contains(what), "{what}");
    }
    let mut damaged = whole.clone();
    damaged[24 + 76 + 8..24 + 76 + 12].copy_from_slice(&[0xff; 4]);
    let s = summed("damaged", &damaged);
    assert_eq!(
        (s.packets, s.problem.expect("a problem").to_string()),
        (1, "packet 2 at byte 100: its length is impossible: the file is damaged".into())
    );
}

/// A block that is shorter than its own frame, of a kind whose parser does not look: found by fuzzing.
#[test]
fn a_block_of_a_pcapng_without_room_for_its_own_length_is_damage() {
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        let words = |w: &[u32]| w.iter().flat_map(|w| order(*w)).collect::<Vec<u8>>();
        let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
        for length in [0, 4, 8, 11] {
            let file = [words(&section), words(&[0x8000_0001, length, 0, length, 0, 0])].concat();
            let problem = packets(file).expect_err("damage");
            assert_eq!(problem, "packet 1 at byte 28: its length is impossible: the file is damaged");
        }
    }
}

/// What we write is what we read, to the nanosecond.
#[test]
fn our_own_files() {
    let mut file = Vec::new();
    let mut w = Writer::new(&mut file, &[100_000_000_000; 2]).unwrap();
    let seen = |at, passage| Seen { at, passage, id: 7, queue: 3, end: 0 };
    for (port, at, passage) in [
        (0, 5_000_001_999, Passage::In),
        (1, 5_000_007_000, Passage::Out),
        (1, 5_000_100_001, Passage::Dropped("CoreDrop")),
    ] {
        w.write(port, &seen(Ps(at), passage), &ethernet(61)).unwrap();
    }
    w.flush().unwrap();
    let found = packets(file).unwrap();
    assert_eq!(found.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 6000, 99_000].map(Ps));
    assert!(found.iter().all(|p| p.1 == ethernet(61)));
}

/// A long trace is streamed in blocks, twice.
#[test]
fn traces_rewind() {
    let list: Vec<_> = (0..1000u32).map(|i| (0, i, ethernet(60 + i as usize % 1000), 60 + i % 1000)).collect();
    let path = stored("long", &pcap(false, 1, &list));
    let mut trace = Trace::new(std::fs::File::open(&path).unwrap());
    for _ in 0..2 {
        let mut n = 0;
        loop {
            let mut block = Block::default();
            trace.fill(&mut block);
            if block.is_empty() {
                break;
            }
            (0..block.len()).for_each(|i| assert_eq!(block.get(i).map(|p| p.1.len()), Some(60 + (n + i) % 1000)));
            n += block.len();
        }
        assert_eq!(n, 1000);
        trace.rewind();
    }
    std::fs::remove_file(path).unwrap();
}

/// The captures that the parser's own test suite consists of; its package brings them.
fn suite() -> Vec<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("JSON");
    let marker = "/pcap-parser-0.17.0/";
    let end = text.find(&format!("{marker}Cargo.toml")).expect("the parser is a dependency") + marker.len();
    let start = text[..end].rfind('"').expect("a string") + 1;
    let mut found: Vec<PathBuf> = std::fs::read_dir(Path::new(&text[start..end]).join("assets"))
        .expect("its assets")
        .map(|e| e.expect("a file").path())
        .collect();
    found.sort();
    found
}

#[test]
fn another_tools_suite() {
    let mut seen = std::collections::BTreeMap::new();
    for path in suite() {
        let s = summary(std::fs::File::open(&path).expect("it is listed"));
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        seen.insert(name, (s.packets, s.problem.map(|p| p.to_string())));
    }
    // As Wireshark's capinfos counts them.
    let expected = [
        ("err-buffertoosmall.pcapng", 27),
        ("modified-format.pcap", 1),
        ("ntp.pcap", 12),
        ("test001-be.pcapng", 4),
        ("test001-le.pcapng", 4),
        ("test010-le.pcapng", 4),
        ("test016-be.pcapng", 4),
        ("test016-le.pcapng", 4),
        ("test017-be.pcapng", 0),
        ("test017-le.pcapng", 0),
        ("wireshark_samples-test.pcapng", 5898),
    ];
    assert_eq!(seen, expected.into_iter().map(|(name, n)| (name.to_owned(), (n, None))).collect());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Fuzz: whatever a file holds, it is read to an end.
    #[test]
    fn damaged_files_end(which in 0usize..4, hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut file = match which {
            0 => pcap(false, 1, &[(0, 0, ethernet(60), 60), (9, 1, ethernet(77), 90)]),
            1 => pcap(true, 101, &[(0, 0, vec![0x45; 40], 40)]),
            2 => {
                let mut f = Vec::new();
                let mut w = Writer::new(&mut f, &[1_000]).unwrap();
                let seen = Seen { at: Ps(5), passage: Passage::Dropped("DmaDrop"), id: 1, queue: 0, end: 0 };
                (0..4).for_each(|_| w.write(0, &seen, &ethernet(60)).unwrap());
                f
            }
            _ => [&[0x0a, 0x0d, 0x0d, 0x0a][..], &bytes].concat(),
        };
        for (at, value) in &hits {
            let i = at.index(file.len());
            file[i] = *value;
        }
        file.truncate(cut.index(file.len() + 1).max(file.len() / 2));
        let _ = packets(file);
    }
}
