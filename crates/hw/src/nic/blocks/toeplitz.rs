//! The Toeplitz hash of receive-side scaling (Microsoft's RSS specification; 82599 data sheet, section 7.1.2.8.1).
//!
//! The key is expanded to one table a byte of input, so that a hash is a few loads.

/// Bytes of the key.
pub const KEY: usize = 40;
/// Longest input: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// A key, ready for use.
pub struct Toeplitz {
    tables: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// With this key.
    #[must_use]
    pub fn new(key: &[u8; KEY]) -> Self {
        let bit = |n: usize| u32::from(key[n / 8] >> (7 - n % 8) & 1);
        // The 32 bits of the key from bit n on.
        let window = |n: usize| (0..32).fold(0u32, |w, i| w << 1 | bit(n + i));
        let table = |byte: usize| {
            let windows: [u32; 8] = std::array::from_fn(|b| window(byte * 8 + 7 - b));
            let mut t = [0u32; 256];
            // The lowest bit, and what the rest has.
            for value in 1..256usize {
                t[value] = t[value & (value - 1)] ^ windows[value.trailing_zeros() as usize];
            }
            t
        };
        Self { tables: (0..INPUT).map(table).collect() }
    }

    /// The hash of an input of at most 36 bytes.
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        input.iter().zip(&self.tables).fold(0, |h, (&byte, table)| h ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verification suite that Microsoft publishes ("Verifying the RSS Hash Calculation").
    const PUBLISHED: [u8; KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn published_vectors_of_ipv4() {
        let t = Toeplitz::new(&PUBLISHED);
        // Source, destination, ports, hash of the addresses, hash with ports.
        for (s, d, sp, dp, addresses, ports) in [
            ([66, 9, 149, 187], [161, 142, 100, 80], 2794u16, 1766u16, 0x323e_8fc2u32, 0x51cc_c178u32),
            ([199, 92, 111, 2], [65, 69, 140, 83], 14230, 4739, 0xd718_262a, 0xc626_b0ea),
            ([24, 19, 198, 95], [12, 22, 207, 184], 12898, 38024, 0xd2d0_a5de, 0x5c2b_394a),
            ([38, 27, 205, 30], [209, 142, 163, 6], 48228, 2217, 0x8298_9176, 0xafc7_327f),
            ([153, 39, 163, 191], [202, 188, 127, 2], 44251, 1303, 0x5d18_09c5, 0x10e8_28a2),
        ] {
            let mut input = [s, d].concat();
            assert_eq!(t.hash(&input), addresses);
            input.extend_from_slice(&sp.to_be_bytes());
            input.extend_from_slice(&dp.to_be_bytes());
            assert_eq!(t.hash(&input), ports);
        }
    }

    #[test]
    fn published_vector_of_ipv6() {
        let t = Toeplitz::new(&PUBLISHED);
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut input = [address("3ffe:2501:200:1fff::7"), address("3ffe:2501:200:3::1")].concat();
        assert_eq!(t.hash(&input), 0x2cc1_8cd5);
        input.extend_from_slice(&2794u16.to_be_bytes());
        input.extend_from_slice(&1766u16.to_be_bytes());
        assert_eq!(t.hash(&input), 0x4020_7d3d);
    }
}
