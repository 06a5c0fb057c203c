//! Clients of a key-value store: requests in memcached's text protocol over UDP (protocol.txt of memcached), and a check of
//! what comes back.
//!
//! Every key is set once, in order; then gets and sets of keys drawn by popularity. Lengths of keys and values are drawn, a
//! value's bytes follow from its key and version: an answer is compared with what was set. A get that a set overlaps may
//! find the old value or the new one; one that was overwritten before the get left, it may not.
//!
//! Left out: requests in several datagrams (servers refuse them), IPv6, commands but get and set.

use super::flows::{Flows, Picker, Spread, Vary};
use super::frames::{datagram, readdress, Datagram, ETHERNET};
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Invalid, Ps};

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreLoad {
    /// Keys that are set first, and then asked for.
    pub keys: u32,
    /// Shortest and longest key, in bytes.
    pub key_length: (u32, u32),
    /// Shortest and longest value, in bytes.
    pub value_length: (u32, u32),
    /// The k-th length's share falls as k to the power of minus this; 0: all are equally likely.
    pub length_skew: f64,
    /// Which key a request is for: as lengths, by its number.
    pub key_skew: f64,
    /// Share of gets; the others are sets.
    pub get_percent: u32,
    /// The server's port.
    pub port: u16,
}

/// Bytes of a key that tell it from all others, and of a value that tell its version.
const LABEL: u32 = 8;
const KEYS_MAX: u32 = 1 << 20;
const KEY_MAX: u32 = 250;
/// A request is one datagram of a standard frame.
const VALUE_MAX: u32 = 1000;
/// memcached's header of a datagram.
const FRAME: usize = 8;
const IP_UDP: usize = 28;
/// Requests whose answer is awaited; where there are more, all are given up.
const OUTSTANDING_MAX: usize = 1 << 18;
/// Datagrams of an answer.
const PARTS_MAX: usize = 1024;
const ROUNDS: u32 = 3;
/// A set that is not acknowledged by then is taken for lost.
const LOST_AFTER: Ps = Ps::from_ms(5);
const KEY_SEED: u64 = 0x6b65_7973;
const POPULARITY_SEED: u64 = 0x706f_7075;
const MIX_SEED: u64 = 0x6d69_7865;

impl StoreLoad {
    /// # Errors
    /// Where it cannot be.
    pub fn check(&self) -> Result<(), Invalid> {
        let within = |name: &str, (low, high): (u32, u32), most: u32| {
            if low < LABEL || high < low || high > most {
                let allowed = format!("allowed are {LABEL} to {most}");
                return Err(Invalid::new(format!("store: {name}"), format!("{low} to {high} B"), allowed));
            }
            Ok(())
        };
        within("key_length", self.key_length, KEY_MAX)?;
        within("value_length", self.value_length, VALUE_MAX)?;
        if self.keys == 0 || self.keys > KEYS_MAX {
            return Err(Invalid::new("store: keys", self.keys, format!("allowed are 1 to {KEYS_MAX}")));
        }
        if self.get_percent > 100 {
            return Err(Invalid::new("store: get_percent", self.get_percent, "at most 100"));
        }
        for (name, skew) in [("length_skew", self.length_skew), ("key_skew", self.key_skew)] {
            if !(0.0..=10.0).contains(&skew) {
                return Err(Invalid::new(format!("store: {name}"), skew, "allowed are 0 to 10"));
            }
        }
        Ok(())
    }
}

/// Requests and what became of them, from the start of the load on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // names say it
pub struct StoreStats {
    pub gets: u64,
    pub sets: u64,
    /// Gets whose answer is the value as it was set.
    pub hits: u64,
    /// Gets of a key that the server said it has not.
    pub misses: u64,
    /// Sets that were acknowledged.
    pub stored: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Answers with another value than was set, or that are none.
    pub wrong: u64,
    /// Datagrams that answer nothing.
    pub unexpected: u64,
    /// Datagrams of answers.
    pub datagrams: u64,
}

/// One of a key's values.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u32,
    sent: Ps,
    stored: Ps,
    /// When it was certain that a later one had replaced it.
    replaced: Ps,
}

#[derive(Debug)]
struct Request {
    key: u32,
    /// Of a set, the version; a get has none.
    version: Option<u32>,
    sent: Ps,
    load: u32,
    /// Datagrams of an answer that is longer than one.
    parts: Vec<Option<Box<[u8]>>>,
}

/// The clients of a generator.
pub struct StoreClients {
    vary: Vary,
    spec: StoreLoad,
    seed: u64,
    key_lengths: Vec<u16>,
    values: Option<Picker>,
    popularity: Picker,
    mix: Pcg64,
    /// The next key that is set before the load proper, and rounds of that: datagrams get lost.
    filled: u32,
    rounds: u32,
    /// Whether this round has set any; until when others of it are awaited, and when it goes on.
    sets: bool,
    awaited: Ps,
    resumes: Ps,
    /// Loads so far: what an earlier one asked is no longer counted.
    load: u32,
    now: Ps,
    versions: Vec<Vec<Version>>,
    latest: Vec<u32>,
    /// By client and request.
    outstanding: FxHashMap<u64, Request>,
    /// The request that was made last and has not left.
    made: Option<(u32, Option<u32>)>,
    text: Vec<u8>,
    /// What became of requests.
    pub stats: StoreStats,
}

fn picker(count: u32, skew: f64, seed: u64) -> Result<Picker, Invalid> {
    let spread = if skew > 0.0 { Spread::Zipf { exponent: skew } } else { Spread::Uniform };
    Picker::new(&Flows { count, spread, vary: Vary::Ports }, seed)
}

/// Letters that follow from a seed.
fn letters(into: &mut Vec<u8>, count: u32, seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut word = 0;
    for i in 0..count {
        if i % 16 == 0 {
            word = random.next_u64();
        }
        into.push(b'a' + (word & 15) as u8);
        word >>= 4;
    }
}

fn label(into: &mut Vec<u8>, number: u32) {
    into.extend((0..LABEL).rev().map(|i| b"0123456789abcdef"[(number >> (4 * i) & 15) as usize]));
}

fn reference(address: &[u8], port: &[u8], request: &[u8]) -> u64 {
    let bytes = [address[1], address[2], address[3], port[0], port[1], request[0], request[1], 0];
    u64::from_le_bytes(bytes)
}

impl StoreClients {
    /// Clients that have set nothing yet.
    ///
    /// # Errors
    /// Where what they shall do cannot be.
    pub fn new(spec: &StoreLoad, seed: u64, vary: Vary) -> Result<Self, Invalid> {
        spec.check()?;
        let (low, high) = spec.key_length;
        let mut lengths = picker(high - low + 1, spec.length_skew, seed ^ KEY_SEED)?;
        Ok(Self {
            spec: *spec,
            seed,
            vary,
            key_lengths: (0..spec.keys).map(|_| (low + lengths.next()) as u16).collect(),
            values: Some(picker(spec.value_length.1 - spec.value_length.0 + 1, spec.length_skew, seed)?),
            popularity: picker(spec.keys, spec.key_skew, seed ^ POPULARITY_SEED)?,
            mix: Pcg64::seed_from_u64(seed ^ MIX_SEED),
            filled: 0,
            rounds: 0,
            sets: false,
            awaited: Ps::ZERO,
            resumes: Ps::ZERO,
            load: 0,
            now: Ps::ZERO,
            versions: vec![Vec::new(); spec.keys as usize],
            latest: vec![0; spec.keys as usize],
            outstanding: FxHashMap::default(),
            made: None,
            text: Vec::new(),
            stats: StoreStats::default(),
        })
    }

    /// What they do.
    #[must_use]
    pub fn spec(&self) -> &StoreLoad {
        &self.spec
    }

    /// A new load begins: keys that are set stay so.
    pub fn restart(&mut self) {
        (self.filled, self.rounds, self.sets) = (0, 0, false);
        (self.awaited, self.resumes) = (Ps::ZERO, Ps::ZERO);
        self.load += 1;
        self.stats = StoreStats::default();
    }

    fn key(&self, key: u32, into: &mut Vec<u8>) {
        label(into, key);
        letters(into, u32::from(self.key_lengths[key as usize]) - LABEL, self.seed ^ u64::from(key) << 32);
    }

    /// Its length is drawn by the version's own random numbers, so that it follows from key and version alone.
    fn value(&mut self, key: u32, version: u32, into: &mut Vec<u8>) {
        let seed = self.seed ^ (u64::from(key) << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let low = self.spec.value_length.0;
        let length = match self.values.take() {
            Some(p) => {
                let mut p = p.reseeded(seed);
                let drawn = p.next();
                self.values = Some(p);
                low + drawn
            }
            None => low,
        };
        label(into, version);
        letters(into, length - LABEL, seed);
    }

    /// Moves on to the next key that no answer has said is set; false where all are, have been tried often enough, or may
    /// still be acknowledged.
    fn find_unset(&mut self) -> bool {
        while self.rounds < ROUNDS && self.now >= self.resumes {
            while self.filled < self.spec.keys {
                let versions = &self.versions[self.filled as usize];
                let stored = versions.iter().any(|v| v.stored < Ps::MAX);
                let lost = versions.last().map_or(Ps::ZERO, |v| v.sent.saturating_add(LOST_AFTER));
                if !stored && lost <= self.now {
                    self.sets = true;
                    return true;
                }
                if !stored {
                    self.awaited = self.awaited.max(lost);
                }
                self.filled += 1;
            }
            // A round in which all that was missing was awaited is none.
            self.rounds += u32::from(self.sets || self.awaited == Ps::ZERO);
            (self.filled, self.sets) = (0, false);
            self.resumes = std::mem::take(&mut self.awaited);
        }
        false
    }

    /// The next request, as a frame of `flow` to `destination`, without FCS; `number` is the packet's.
    pub fn make(&mut self, number: u64, flow: u32, destination: [u8; 6], frame: &mut Vec<u8>) {
        let fill = self.find_unset();
        let get = !fill && ((self.mix.next_u64() >> 32) * 100) >> 32 < u64::from(self.spec.get_percent);
        let key = if fill { self.filled } else { self.popularity.next() };
        self.filled += u32::from(fill);
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.extend_from_slice(&(number as u16).to_be_bytes());
        text.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
        let version = (!get).then(|| self.latest[key as usize] + 1);
        if let Some(version) = version {
            let mut value = Vec::with_capacity(VALUE_MAX as usize);
            self.value(key, version, &mut value);
            text.extend_from_slice(b"set ");
            self.key(key, &mut text);
            text.extend_from_slice(format!(" 0 0 {}\r\n", value.len()).as_bytes());
            text.extend_from_slice(&value);
        } else {
            text.extend_from_slice(b"get ");
            self.key(key, &mut text);
        }
        text.extend_from_slice(b"\r\n");
        datagram(frame, &Datagram { destination, flow, vary: self.vary, port: self.spec.port, payload: &text });
        self.text = text;
        self.made = Some((key, version));
    }

    /// The request that was made is another client's.
    pub fn give_to(&self, flow: u32, frame: &mut [u8]) {
        readdress(frame, flow, self.vary);
    }

    /// The request that was made leaves at `t`, as this frame.
    pub fn sent(&mut self, frame: &[u8], t: Ps) {
        self.now = t;
        let Some((key, version)) = self.made.take() else { return };
        if let Some(number) = version {
            self.stats.sets += 1;
            self.latest[key as usize] = number;
            self.versions[key as usize].push(Version { number, sent: t, stored: Ps::MAX, replaced: Ps::MAX });
        } else {
            self.stats.gets += 1;
        }
        if self.outstanding.len() >= OUTSTANDING_MAX {
            self.outstanding.clear();
        }
        let request = reference(&frame[26..30], &frame[34..36], &frame[42..44]);
        self.outstanding.insert(request, Request { key, version, sent: t, load: self.load, parts: Vec::new() });
    }

    /// A frame came from the host at `t`.
    pub fn heard(&mut self, frame: &[u8], t: Ps) {
        let Some(f) = frame.get(..ETHERNET + IP_UDP + FRAME) else { return };
        if f[12..14] != [8, 0] || f[14] != 0x45 || f[23] != 17 || f[34..36] != self.spec.port.to_be_bytes() {
            return;
        }
        let word = |at: usize| usize::from(u16::from_be_bytes([f[at], f[at + 1]]));
        let end = (ETHERNET + 20 + word(38)).min(frame.len());
        let text = frame.get(ETHERNET + IP_UDP + FRAME..end).unwrap_or(&[]);
        let (sequence, total) = (word(44), word(46));
        let id = reference(&f[30..34], &f[36..38], &f[42..44]);
        let Some(request) = self.outstanding.get_mut(&id).filter(|_| total <= PARTS_MAX && sequence < total) else {
            self.stats.unexpected += 1;
            return;
        };
        self.stats.datagrams += 1;
        if total > 1 {
            request.parts.resize_with(total, || None);
            request.parts[sequence] = Some(text.into());
            if request.parts.iter().any(Option::is_none) {
                return;
            }
        }
        let Some(request) = self.outstanding.remove(&id) else { return };
        if total > 1 {
            let whole: Vec<u8> = request.parts.iter().flatten().flat_map(|p| p.iter().copied()).collect();
            self.judge(&request, &whole, t);
        } else {
            self.judge(&request, text, t);
        }
    }

    fn judge(&mut self, r: &Request, text: &[u8], t: Ps) {
        let counted = self.stats;
        self.count(r, text, t);
        if r.load != self.load {
            self.stats = counted;
        }
    }

    fn count(&mut self, r: &Request, text: &[u8], t: Ps) {
        let refused = [b"ERROR".as_slice(), b"SERVER_ERROR", b"CLIENT_ERROR"].iter().any(|e| text.starts_with(e));
        if refused {
            self.stats.refused += 1;
            return;
        }
        match r.version {
            Some(number) if text == b"STORED\r\n" => {
                self.stats.stored += 1;
                self.stored(r.key, number, t);
            }
            Some(_) => self.stats.wrong += 1,
            None if text == b"END\r\n" => self.stats.misses += 1,
            None if self.is_value(r, text) => self.stats.hits += 1,
            None => self.stats.wrong += 1,
        }
    }

    /// What was acknowledged before this one left is replaced.
    fn stored(&mut self, key: u32, number: u32, t: Ps) {
        let versions = &mut self.versions[key as usize];
        let Some(sent) = versions.iter_mut().find(|v| v.number == number).map(|v| {
            v.stored = t;
            v.sent
        }) else {
            return;
        };
        for v in versions.iter_mut().filter(|v| v.stored < sent && v.replaced == Ps::MAX) {
            v.replaced = t;
        }
        // Gets that left before may still find them; those have been answered long since where many follow.
        if versions.len() > 64 {
            versions.retain(|v| v.replaced == Ps::MAX || t - v.replaced < Ps::from_s(1));
        }
    }

    fn is_value(&mut self, r: &Request, text: &[u8]) -> bool {
        let candidates: Vec<u32> =
            self.versions[r.key as usize].iter().filter(|v| v.replaced > r.sent).map(|v| v.number).collect();
        candidates.into_iter().rev().any(|version| {
            let (mut expected, mut value) = (b"VALUE ".to_vec(), Vec::new());
            self.value(r.key, version, &mut value);
            self.key(r.key, &mut expected);
            expected.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
            expected.extend_from_slice(&value);
            expected.extend_from_slice(b"\r\nEND\r\n");
            expected == text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: StoreLoad = StoreLoad {
        keys: 50,
        key_length: (10, 100),
        value_length: (10, 100),
        length_skew: 0.5,
        key_skew: 0.0,
        get_percent: 80,
        port: 11211,
    };

    /// A server that keeps what it is told; `answer` cuts its text into datagrams of `cut` bytes.
    fn answers(request: &[u8], store: &mut FxHashMap<Vec<u8>, Vec<u8>>, cut: usize) -> Vec<Vec<u8>> {
        let end = ETHERNET + 20 + usize::from(u16::from_be_bytes([request[38], request[39]]));
        let text = &request[ETHERNET + IP_UDP + FRAME..end];
        let line = text.split(|&b| b == b'\r').next().unwrap();
        let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
        let answer = if words[0] == b"set" {
            let value = text[line.len() + 2..text.len() - 2].to_vec();
            assert_eq!(words[4], value.len().to_string().as_bytes());
            store.insert(words[1].to_vec(), value);
            b"STORED\r\n".to_vec()
        } else {
            store.get(words[1]).map_or(b"END\r\n".to_vec(), |v| {
                [b"VALUE ", words[1], format!(" 0 {}\r\n", v.len()).as_bytes(), v, b"\r\nEND\r\n"].concat()
            })
        };
        let total = answer.len().div_ceil(cut);
        let one = |(i, part): (usize, &[u8])| {
            let mut f = request[..ETHERNET + IP_UDP].to_vec();
            f[26..30].copy_from_slice(&request[30..34]);
            f[30..34].copy_from_slice(&request[26..30]);
            f[34..36].copy_from_slice(&request[36..38]);
            f[36..38].copy_from_slice(&request[34..36]);
            f[38..40].copy_from_slice(&((8 + FRAME + part.len()) as u16).to_be_bytes());
            f.extend_from_slice(&request[42..44]);
            f.extend_from_slice(&[0, i as u8, 0, total as u8, 0, 0]);
            f.extend_from_slice(part);
            f.resize(f.len().max(60), 0);
            f
        };
        answer.chunks(cut).enumerate().map(one).collect()
    }

    fn ask(c: &mut StoreClients, n: u64) -> Vec<u8> {
        ask_at(c, n, Ps(n * 1000))
    }

    fn ask_at(c: &mut StoreClients, n: u64, t: Ps) -> Vec<u8> {
        let mut f = Vec::new();
        c.make(n, n as u32 % 7, [2; 6], &mut f);
        c.sent(&f, t);
        f
    }

    #[test]
    fn every_value_comes_back() {
        for cut in [1400, 13] {
            let mut c = StoreClients::new(&SPEC, 1, Vary::Ports).unwrap();
            let mut store = FxHashMap::default();
            for n in 0..5000 {
                let request = ask(&mut c, n);
                assert!(crate::nic::check_frame(&request).l4_checked && !crate::nic::check_frame(&request).l4_bad);
                // The last datagram first.
                for a in answers(&request, &mut store, cut).iter().rev() {
                    c.heard(a, Ps(n * 1000 + 500));
                }
            }
            let s = c.stats;
            assert_eq!((s.gets + s.sets, s.hits, s.stored), (5000, s.gets, s.sets));
            assert_eq!((s.wrong, s.misses, s.refused, s.unexpected), (0, 0, 0, 0));
            let share = s.gets as f64 / 4950.0;
            assert!((share - 0.8).abs() < 0.02, "{share}");
        }
    }

    /// However soon all keys have been sent: what is not acknowledged within 5 ms is sent again, twice at most.
    #[test]
    fn sets_that_are_lost_are_repeated() {
        let mut c = StoreClients::new(&SPEC, 1, Vary::Ports).unwrap();
        let mut store = FxHashMap::default();
        let mut tries: FxHashMap<Vec<u8>, Vec<u64>> = FxHashMap::default();
        // Of a load that only asks for keys: the first set of each is lost, all of the first key.
        c.spec.get_percent = 100;
        for n in 0..20_000 {
            let request = ask_at(&mut c, n, Ps::from_us(n));
            let text = &request[ETHERNET + IP_UDP + FRAME..];
            if !text.starts_with(b"set ") {
                continue;
            }
            let key = text[4..].split(|&b| b == b' ').next().unwrap().to_vec();
            let first = tries.is_empty() || tries.get(&key).is_some_and(|t| t[0] == 0);
            let sent = tries.entry(key).or_default();
            sent.push(n);
            if sent.len() > 1 && !first {
                c.heard(&answers(&request, &mut store, 1400)[0], Ps::from_us(n + 1));
            }
        }
        assert_eq!((tries.len() as u32, store.len() as u32), (SPEC.keys, SPEC.keys - 1));
        let often: Vec<usize> = tries.values().map(Vec::len).collect();
        assert_eq!(often.iter().filter(|&&n| n == 2).count() as u32, SPEC.keys - 1);
        assert_eq!(often.iter().max(), Some(&3));
        let apart = tries.values().flat_map(|t| t.windows(2).map(|w| w[1] - w[0])).min();
        assert!(apart >= Some(LOST_AFTER / Ps::from_us(1)), "{apart:?}");
    }

    #[test]
    fn wrong_answers_are_found() {
        let mut c = StoreClients::new(&SPEC, 1, Vary::Ports).unwrap();
        let mut store = FxHashMap::default();
        let (mut wrong, mut missed) = (0, 0);
        for n in 0..2000 {
            let request = ask(&mut c, n);
            let mut a = answers(&request, &mut store, 1400).remove(0);
            let text = ETHERNET + IP_UDP + FRAME;
            if n >= 50 && n % 3 == 0 && a[text..].starts_with(b"VALUE") {
                let last = text + 14 + usize::from(n % 2 == 0) * 3;
                a[last] ^= 1;
                wrong += 1;
            } else if n >= 50 && n % 3 == 1 && a[text..].starts_with(b"VALUE") {
                a[38..40].copy_from_slice(&21u16.to_be_bytes());
                a[text..text + 5].copy_from_slice(b"END\r\n");
                missed += 1;
            }
            c.heard(&a, Ps(n * 1000 + 1));
            c.heard(&a, Ps(n * 1000 + 2)); // twice
        }
        assert_eq!((c.stats.wrong, c.stats.misses, c.stats.unexpected), (wrong, missed, 2000));
        assert_eq!(c.stats.hits, c.stats.gets - wrong - missed);
    }

    /// An old value after its successor was acknowledged is wrong; while both are under way, either is right.
    #[test]
    fn overlapping_sets_are_told_from_lost_ones() {
        let mut c = StoreClients::new(&StoreLoad { keys: 1, get_percent: 0, ..SPEC }, 1, Vary::Ports).unwrap();
        let mut store = FxHashMap::default();
        let first = ask(&mut c, 0);
        let stored = answers(&first, &mut store, 1400);
        c.heard(&stored[0], Ps(10));
        let old = store.clone();
        let second = ask(&mut c, 1);
        let acknowledged = answers(&second, &mut store, 1400);
        c.spec.get_percent = 100;
        let early = ask(&mut c, 2);
        c.heard(&acknowledged[0], Ps(2500));
        let late = ask(&mut c, 3);
        c.heard(&answers(&early, &mut old.clone(), 1400)[0], Ps(4000));
        assert_eq!((c.stats.hits, c.stats.wrong), (1, 0), "it left before the set was acknowledged");
        c.heard(&answers(&late, &mut old.clone(), 1400)[0], Ps(4000));
        assert_eq!((c.stats.hits, c.stats.wrong), (1, 1));
    }

    #[test]
    fn lengths_are_zipf() {
        let mut c = StoreClients::new(&StoreLoad { keys: 20_000, ..SPEC }, 3, Vary::Ports).unwrap();
        let weights: Vec<f64> = (1..=91).map(|k| f64::from(k).powf(-0.5)).collect();
        let sum: f64 = weights.iter().sum();
        let expected: f64 = weights.iter().enumerate().map(|(i, w)| (i + 10) as f64 * w / sum).sum();
        let keys = c.key_lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / 20_000.0;
        let mut total = 0;
        for key in 0..20_000 {
            let mut v = Vec::new();
            c.value(key, 1, &mut v);
            assert!((10..=100).contains(&v.len()));
            total += v.len();
        }
        let values = f64::from(total as u32) / 20_000.0;
        assert!((keys - expected).abs() < 0.8 && (values - expected).abs() < 0.8, "{keys} {values} {expected}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut StoreLoad)| {
            let mut s = SPEC;
            change(&mut s);
            StoreClients::new(&s, 1, Vary::Ports).err().unwrap().to_string()
        };
        assert!(refused(|s| s.keys = 0).contains("keys is 0"));
        assert!(refused(|s| s.key_length = (7, 100)).contains("key_length is 7 to 100 B"));
        assert!(refused(|s| s.value_length = (20, 2000)).contains("allowed are 8 to 1000"));
        assert!(refused(|s| s.get_percent = 101).contains("at most 100"));
        assert!(refused(|s| s.key_skew = f64::NAN).contains("key_skew is NaN"));
    }
}
