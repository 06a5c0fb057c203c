//! Tags of customers' VLANs (IEEE 802.1Q): what devices take off received frames and put into sent ones.
//!
//! Left out: providers' tags (0x88a8), other types that registers may name.

use std::ops::Range;

/// Bytes of a tag, its type included.
pub const BYTES: u32 = 4;
/// Where it stands: behind the addresses.
const AT: usize = 12;
const TYPE: [u8; 2] = [0x81, 0];

/// Bytes that a tag adds to a frame, where it has one.
#[must_use]
pub fn bytes(tagged: bool) -> u32 {
    u32::from(tagged) * BYTES
}

/// The tag (priority, whether it may be dropped, identifier) of a frame that has one.
#[must_use]
pub fn of(frame: &[u8]) -> Option<u16> {
    match frame.get(AT..AT + BYTES as usize) {
        Some(&[a, b, high, low]) if [a, b] == TYPE => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// Puts a tag into a frame; one that is too short to have a place for it stays as it is.
pub fn insert(frame: &mut Vec<u8>, tag: u16) {
    if frame.len() >= AT {
        let [high, low] = tag.to_be_bytes();
        frame.splice(AT..AT, [TYPE[0], TYPE[1], high, low]);
    }
}

/// Bytes of a frame as it is without its tag, in two pieces.
#[must_use]
pub fn without(frame: &[u8], part: Range<usize>) -> [&[u8]; 2] {
    let (head, rest) = frame.split_at(AT.min(frame.len()));
    let rest = rest.get(BYTES as usize..).unwrap_or_default();
    let of = |piece: &'_ [u8], from: usize| {
        let place = |at: usize| at.saturating_sub(from).min(piece.len());
        place(part.start)..place(part.end)
    };
    let (a, b) = (of(head, 0), of(rest, head.len()));
    [&head[a], &rest[b]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        (0..40).collect()
    }

    #[test]
    fn what_was_put_in_is_found_and_left_out() {
        let mut f = frame();
        assert_eq!(of(&f), None);
        insert(&mut f, 0x6123);
        assert_eq!((f.len(), of(&f)), (44, Some(0x6123)));
        assert_eq!(f[12..18], [0x81, 0, 0x61, 0x23, 12, 13]);
        for (from, to) in [(0, 40), (0, 12), (3, 13), (11, 12), (12, 40), (20, 30), (0, 60), (40, 50)] {
            let [a, b] = without(&f, from..to);
            assert_eq!([a, b].concat(), frame()[from.min(40)..to.min(40)], "{from}..{to}");
        }
    }

    #[test]
    fn short_frames_have_none() {
        let mut f = vec![0x81; 11];
        insert(&mut f, 1);
        assert_eq!((of(&f), f.len()), (None, 11));
        assert_eq!(without(&f, 0..20), [&f[..], &[]]);
        assert_eq!(of(&[&[0; 12][..], &[0x81, 0, 1]].concat()), None, "cut off");
        assert_eq!(without(&[7; 14], 0..20), [&[7; 12][..], &[]]);
    }
}
