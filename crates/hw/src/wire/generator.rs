//! The load generator: which packet leaves when. Whatever the simulator does meanwhile, times are exact.
//!
//! Packets are made to measure or come from a trace; they leave by an arrival process, by the trace's timestamps, or when a
//! client has thought enough. What the generator answers to the host's questions goes between them.

use super::answers;
use super::arrivals::{Arrivals, Departures};
use super::clients::{Clients, ClosedLoop};
use super::far::{Far, FarStats, Timed};
use super::flows::{Flows, Picker};
use super::frames::{Frames, Internet, Kind, Packet, Traffic};
use super::iperf::{Iperf, IperfLoad, IperfReport};
use super::key_value::{StoreClients, StoreLoad, StoreStats};
use super::line::Line;
use super::replay::{Play, Replay, Source, TraceClock};
use super::sink::Recognition;
use super::sizes::{Lengths, Sizes};
use super::stack::Stack;
use super::FCS;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use wiretime_base::{BitRate, Ps};

/// Bits of a packet's number below the number of its port.
pub const ID_BITS: u32 = 56;
/// Set beside the port's number in the numbers of a generator's answers.
pub const ANSWER: u64 = 0x80;

/// Sizes, flows and think times are drawn apart from distances.
const SIZES_SEED: u64 = 0x5175_6573;
const FLOWS_SEED: u64 = 0x666c_6f77;
/// What a request to a store counts as in the rate, in bytes.
const NOMINAL: u32 = 64;
/// Answers that wait for the line; the host asks in vain where it floods us.
const ANSWERS_MAX: usize = 1024;
/// Frames of a client that wait for the line: with fewer, beside those that a cable holds, it makes more.
const REFILL: usize = 32;
/// Bits of a full frame on the line.
const FULL_FRAME: u64 = 1538 * 8;

/// What a generator sends.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Kind of packets.
    pub traffic: Traffic,
    /// Their internet protocol.
    pub internet: Internet,
    /// Bytes of frames, FCS included.
    pub sizes: Sizes,
    /// Bits of frames a second.
    pub rate: BitRate,
    /// How packets follow each other.
    pub arrivals: Arrivals,
    /// Flows.
    pub flows: Flows,
    /// How answers are told.
    pub recognition: Recognition,
    /// Where the probe is, from the start of the frame.
    pub timestamp_offset: u32,
    /// So many packets and no more.
    pub packets: Option<u64>,
    /// Clients decide when packets leave, instead of the rate.
    pub clients: Option<ClosedLoop>,
    /// Packets come from a trace.
    pub play: Option<Play>,
    /// What clients of a key-value store ask for. The rate then counts a request as 64 B, whatever its length.
    pub store: Option<StoreLoad>,
    /// What an iperf3 client does, instead of anything else.
    pub iperf: Option<IperfLoad>,
    /// Frames come from the far end of the wire, instead of anything else.
    pub far: bool,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Load {
    /// Mean length of its frames in bytes, FCS included.
    fn mean_length(&self) -> f64 {
        if self.store.is_some() {
            return f64::from(NOMINAL);
        }
        self.play.map_or(self.sizes.mean(), |p| p.mean_length)
    }
}

impl Default for Load {
    /// 64 B of UDP at 1 Gb/s, in one flow.
    fn default() -> Self {
        Self {
            traffic: Traffic::Udp,
            internet: Internet::V4,
            sizes: Sizes::Fixed { size: 64 },
            rate: BitRate::new(1_000_000_000).expect("above zero"),
            arrivals: Arrivals::Constant,
            flows: Flows::default(),
            recognition: Recognition::Probe,
            timestamp_offset: 42,
            packets: None,
            clients: None,
            play: None,
            store: None,
            iperf: None,
            far: false,
            seed: 0,
        }
    }
}

/// Who decides when packets leave.
enum Pace {
    Open(Departures),
    Closed(Clients),
    /// The trace's own timestamps, from this time on.
    Captured(Ps),
}

/// The generator of one port.
pub struct Generator {
    port: u8,
    load: Load,
    line: Line,
    link: (BitRate, u32),
    frames: Frames,
    lengths: Lengths,
    picker: Picker,
    pace: Pace,
    replay: Option<Replay>,
    store: Option<StoreClients>,
    iperf: Option<Iperf>,
    far: Option<Far>,
    /// Before the load, or instead of it: packets at this time and so far apart.
    trickle: Option<(Ps, Ps)>,
    /// The next packet of the load: when it wants to leave, and its bytes where they are from a trace.
    own: Packet,
    wanted: Ps,
    own_bytes: Vec<u8>,
    remaining: u64,
    /// Answers to the host: ready when, what.
    answers: VecDeque<(Ps, Vec<u8>)>,
    answered: u64,
    next: Packet,
    /// Bytes of packets that have left and are not all in memory yet, in order, where they cannot be made again.
    held: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    refill: usize,
    /// Whether the wanted rate exceeds what the line carries at this packet size, so that it sends back to back.
    pub line_limited: bool,
}

impl Generator {
    /// The generator of port `port`, to `destination`, on a line of `line` with `gap` bytes between frames.
    ///
    /// # Errors
    /// Where a packet cannot be built, or the rate is above the line's.
    pub fn new(load: &Load, port: u8, link: (BitRate, u32), destination: [u8; 6]) -> Result<Self, String> {
        load.sizes.check()?;
        let kind = (load.traffic, load.internet, load.flows.vary);
        let frames = Frames::new(kind, load.sizes.range().0, load.timestamp_offset, destination)?;
        let (rate, line) = (load.rate, link.0);
        if rate > line {
            return Err(format!("rate is {rate}: at most the link's, {line} (link.rate)"));
        }
        let mean = load.mean_length();
        let carried = line.bits_per_second() as f64 * mean / (mean + f64::from(link.1));
        let paced = !load.far && load.clients.is_none() && load.play.is_none_or(|p| p.clock == TraceClock::Rate);
        let mut load = load.clone();
        load.seed ^= u64::from(port) << 32;
        if load.store.is_some() != (load.traffic == Traffic::Memcached) {
            return Err("load: store and traffic memcached belong together".into());
        }
        if load.iperf.is_some() != (load.traffic == Traffic::Iperf) {
            return Err("load: iperf and traffic iperf belong together".into());
        }
        let mut lengths = Lengths::new(&load.sizes, load.seed ^ SIZES_SEED);
        let first = Packet { id: u64::from(port) << ID_BITS, length: lengths.next(), ..Packet::default() };
        Ok(Self {
            port,
            line: Line::new(link),
            link,
            frames,
            lengths,
            picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?,
            pace: Pace::Captured(Ps::ZERO),
            replay: None,
            store: load.store.as_ref().map(|s| StoreClients::new(s, load.seed)).transpose()?,
            iperf: load.iperf.as_ref().map(|s| Iperf::new(s, load.seed)).transpose()?,
            far: load.far.then(Far::default),
            trickle: None,
            own: first,
            wanted: Ps::MAX,
            own_bytes: Vec::new(),
            remaining: u64::MAX,
            answers: VecDeque::new(),
            answered: 0,
            next: Packet { departed: Ps::MAX, ..first },
            held: VecDeque::new(),
            spare: Vec::new(),
            refill: REFILL,
            line_limited: paced && rate.bits_per_second() as f64 > carried,
            load,
        })
    }

    /// The cable is so long.
    pub fn set_cable(&mut self, latency: Ps) {
        let bits = u128::from(self.link.0.bits_per_second()) * u128::from(latency.0) / u128::from(Ps::from_s(1).0);
        self.refill = REFILL + (bits as u64 / FULL_FRAME) as usize;
    }

    /// Where the load's packets come from, if it plays a trace.
    pub fn set_source(&mut self, source: Box<dyn Source>) {
        self.replay = Some(Replay::new(source));
    }

    /// Packets leave as configured, from `t` on.
    pub fn start_at(&mut self, t: Ps) {
        self.trickle = None;
        let l = &self.load;
        self.lengths = Lengths::new(&l.sizes, l.seed ^ SIZES_SEED);
        if let Ok(picker) = Picker::new(&l.flows, l.seed ^ FLOWS_SEED) {
            self.picker = picker;
        }
        self.pace = match (&l.clients, l.play) {
            (Some(spec), _) => Pace::Closed(Clients::new(spec, t, l.seed)),
            _ if l.far => Pace::Captured(Ps::ZERO),
            (None, Some(Play { clock: TraceClock::Captured { .. }, .. })) => Pace::Captured(t),
            (None, _) => Pace::Open(Departures::new(l.arrivals, (l.rate, l.mean_length()), self.link.0, t, l.seed)),
        };
        if let (Some(replay), Some(play)) = (&mut self.replay, l.play) {
            replay.start(play);
        }
        self.remaining = l.packets.unwrap_or(u64::MAX);
        if let Some(store) = &mut self.store {
            store.restart();
        }
        if let Some(client) = &mut self.iperf {
            client.start(t);
            self.work(t);
        }
        self.draw();
        self.decide();
    }

    /// Another load, from the next start on; packets go on being numbered.
    ///
    /// # Errors
    /// As in [`Generator::new`]; the load in force then stays.
    pub fn change(&mut self, load: &Load) -> Result<(), String> {
        let new = Self::new(load, self.port, self.link, self.destination())?;
        let old = std::mem::replace(self, new);
        // What has left goes on its way, and is numbered on.
        (self.line, self.replay) = (old.line, old.replay);
        // What is in the store stays there.
        if old.store.as_ref().map(StoreClients::spec) == self.store.as_ref().map(StoreClients::spec) {
            self.store = old.store;
        }
        (self.own.id, self.answers, self.answered) = (old.own.id, old.answers, old.answered);
        (self.held, self.spare, self.refill) = (old.held, old.spare, old.refill);
        self.decide();
        Ok(())
    }

    /// Packets of the same sizes leave `interval` apart, the first at `t`.
    pub fn trickle_at(&mut self, t: Ps, interval: Ps) {
        self.trickle = Some((t, interval));
        (self.wanted, self.remaining, self.own.flow) = (t, u64::MAX, self.picker.next());
        self.make_request();
        self.decide();
    }

    /// Whether nothing is left to send, ever.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.wanted == Ps::MAX && self.far.is_none() && !matches!(self.pace, Pace::Closed(_))
    }

    /// Number of the load's next packet.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.own.id
    }

    /// Requests that clients gave up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        if let Pace::Closed(clients) = &self.pace {
            clients.given_up
        } else {
            0
        }
    }

    /// The load's next packet: what, and when it wants to leave.
    fn draw(&mut self) {
        self.wanted = Ps::MAX;
        if self.remaining == 0 || self.iperf.is_some() {
            return;
        }
        let destination = self.frames.destination();
        let (mut captured, own) = (Ps::ZERO, &mut self.own);
        if let Some(far) = &mut self.far {
            let Some((at, bytes)) = far.next() else { return };
            self.own_bytes = bytes;
            captured = at;
            (own.kind, own.length, own.flow) = (Kind::Replayed, self.own_bytes.len() as u32 + FCS, 0);
        } else if self.store.is_some() {
            own.flow = self.picker.next();
            self.make_request();
        } else if let (Some(replay), Some(_)) = (&mut self.replay, self.load.play) {
            let Some((at, flow)) = replay.next(&mut self.own_bytes, destination) else { return };
            (captured, own.flow) = (at, flow);
            (own.kind, own.length) = (Kind::Replayed, self.own_bytes.len() as u32 + FCS);
        } else {
            (own.kind, own.length, own.flow) = (Kind::Built, self.lengths.next(), self.picker.next());
        }
        self.wanted = match &mut self.pace {
            Pace::Open(departures) if self.store.is_some() => departures.next(NOMINAL),
            Pace::Open(departures) => departures.next(self.own.length),
            Pace::Captured(start) => start.saturating_add(captured),
            Pace::Closed(_) => Ps::MAX, // decided anew at every answer
        };
    }

    /// Where requests to a store are sent: the next one, of the flow that is set.
    fn make_request(&mut self) {
        let Some(store) = &mut self.store else { return };
        let own = &mut self.own;
        store.make(own.id, own.flow, self.frames.destination(), &mut self.own_bytes);
        (own.kind, own.length) = (Kind::Replayed, self.own_bytes.len() as u32 + FCS);
    }

    /// Which packet leaves next: the load's or an answer.
    fn decide(&mut self) {
        if let (Pace::Closed(clients), None) = (&mut self.pace, self.trickle) {
            let (t, client) = clients.next();
            (self.wanted, self.own.flow) = if self.remaining == 0 { (Ps::MAX, 0) } else { (t, client) };
            if let Some(store) = &mut self.store {
                store.give_to(client, &mut self.own_bytes);
            }
        }
        self.next = match self.answers.front() {
            Some((ready, bytes)) if *ready <= self.wanted => Packet {
                id: (u64::from(self.port) | ANSWER) << ID_BITS | self.answered,
                departed: self.line.free(*ready),
                length: bytes.len() as u32 + FCS,
                flow: 0,
                kind: Kind::Answer,
            },
            _ if self.wanted == Ps::MAX => Packet { departed: Ps::MAX, ..self.own },
            _ => Packet { departed: self.line.free(self.wanted), ..self.own },
        };
    }

    /// The packet that leaves next; never, where its time is the end of all.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Packet {
        self.next
    }

    /// That packet has left; it is `now`, when it has arrived.
    pub fn advance(&mut self, now: Ps) {
        let Packet { id, departed, length, kind, .. } = self.next;
        self.line.take(departed, length);
        if kind == Kind::Answer {
            self.answered += 1;
            if let Some((_, bytes)) = self.answers.pop_front() {
                self.held.push_back((id, bytes));
            }
            if self.answers.len() < self.refill {
                self.work(now);
            }
        } else {
            self.own.id += 1;
            self.remaining = self.remaining.saturating_sub(1);
            if let Some(store) = &mut self.store {
                store.sent(&self.own_bytes, departed);
            }
            if kind == Kind::Replayed {
                let bytes = std::mem::replace(&mut self.own_bytes, self.spare.pop().unwrap_or_default());
                self.held.push_back((id, bytes));
            }
            if let Some((t, interval)) = &mut self.trickle {
                *t += *interval;
                self.wanted = *t;
                self.own.flow = self.picker.next();
                self.make_request();
            } else {
                if let Pace::Closed(clients) = &mut self.pace {
                    clients.sent(id, departed);
                }
                self.draw();
            }
        }
        self.decide();
    }

    /// A frame came back at `t` that answers packet `id`; whether that changes what leaves next.
    pub fn returned(&mut self, id: u64, t: Ps) -> bool {
        let Pace::Closed(clients) = &mut self.pace else { return false };
        if clients.answered(id, t) {
            self.decide();
            return true;
        }
        false
    }

    /// A frame came at `t`, whatever it is; whether that changes what leaves next.
    pub fn heard(&mut self, frame: &[u8], t: Ps) -> bool {
        if let Some(store) = &mut self.store {
            store.heard(frame, t);
        }
        let Some(client) = self.iperf.as_mut().filter(|_| Stack::takes(frame)) else { return false };
        client.arrives(frame, t);
        true
    }

    /// Frames leave the far end, in order of time.
    pub fn far_brings(&mut self, frames: impl Iterator<Item = Timed>) {
        let Some(far) = &mut self.far else { return };
        frames.for_each(|(t, frame)| far.brings(t, frame));
        if self.wanted == Ps::MAX {
            self.draw();
            self.decide();
        }
    }

    /// The port sends a frame whose first bit leaves at `t`.
    #[inline]
    pub fn far_takes(&mut self, t: Ps, frame: &[u8]) {
        if let Some(far) = &mut self.far {
            far.takes(t, frame);
        }
    }

    /// Frames on their way to the far end.
    pub fn to_far(&mut self) -> impl Iterator<Item = Timed> + '_ {
        self.far.iter_mut().flat_map(Far::outgoing)
    }

    /// What passed between here and the far end.
    #[must_use]
    pub fn far_stats(&self) -> FarStats {
        self.far.as_ref().map(|f| f.stats.clone()).unwrap_or_default()
    }

    /// When the client has to be woken.
    #[must_use]
    pub fn wakes(&mut self) -> Ps {
        self.iperf.as_mut().map_or(Ps::MAX, Iperf::wakes)
    }

    /// The client works at `t`: what it says waits for the line.
    pub fn work(&mut self, t: Ps) {
        let Some(client) = &mut self.iperf else { return };
        let frames = client.work(t, (2 * self.refill).saturating_sub(self.answers.len()));
        self.answers.extend(frames.into_iter().map(|f| (t, f)));
        self.decide();
    }

    /// The load is over; clients say so.
    pub fn finish(&mut self, t: Ps) {
        if let Some(client) = &mut self.iperf {
            client.finish();
            self.work(t);
        }
    }

    /// Whether a client has not finished yet.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.iperf.as_ref().is_some_and(Iperf::busy)
    }

    /// What a client counted.
    #[must_use]
    pub fn iperf_report(&self) -> Option<IperfReport> {
        self.iperf.as_ref().map(Iperf::report)
    }

    /// What became of requests to a store.
    #[must_use]
    pub fn store_stats(&self) -> Option<StoreStats> {
        self.store.as_ref().map(|s| s.stats)
    }

    /// A frame came at `t` that answers nothing; whether there is something to say to it, which changes what leaves next.
    pub fn asked(&mut self, frame: &[u8], t: Ps) -> bool {
        if self.far.is_some() || self.iperf.is_some() && Stack::takes(frame) {
            return false; // heard
        }
        if self.answers.len() >= ANSWERS_MAX {
            return false;
        }
        let Some(answer) = answers::answer(frame) else { return false };
        self.answers.push_back((t, answer));
        self.decide();
        true
    }

    /// Where the load's frames go.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        self.frames.destination()
    }

    /// The headers of a packet that has just arrived, as far as they tell its flow.
    pub fn headers(&mut self, packet: &Packet) -> &[u8] {
        match packet.kind {
            Kind::Built => self.frames.headers(packet),
            Kind::Replayed | Kind::Answer => self.peek(packet),
        }
    }

    /// The frame of a packet, without FCS, once the packets before it have been taken.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        if packet.kind == Kind::Built {
            return self.frames.frame(packet);
        }
        while self.held.len() > 1 && self.held.front().is_some_and(|h| h.0 != packet.id) {
            self.spare.extend(self.held.pop_front().map(|h| h.1));
        }
        self.held.front().map_or(&[], |h| &h.1)
    }

    /// The frame of a packet that has just left, without FCS.
    pub fn peek(&mut self, packet: &Packet) -> &[u8] {
        match packet.kind {
            Kind::Built => self.frames.frame(packet),
            Kind::Replayed | Kind::Answer => self.held.iter().rfind(|h| h.0 == packet.id).map_or(&[], |h| &h.1),
        }
    }

    /// A packet that has just arrived goes no further.
    pub fn refused(&mut self, packet: &Packet) {
        if packet.kind != Kind::Built && self.held.back().is_some_and(|h| h.0 == packet.id) {
            self.spare.extend(self.held.pop_back().map(|h| h.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flows::{Spread, Vary};
    use super::super::replay::Block;
    use super::*;

    fn load(sizes: Sizes, rate: &str) -> Load {
        Load {
            sizes,
            rate: rate.parse().unwrap(),
            flows: Flows { count: 3, spread: Spread::RoundRobin, vary: Vary::Ports },
            ..Load::default()
        }
    }

    fn generator(sizes: Sizes, rate: &str, line: &str) -> Result<Generator, String> {
        Generator::new(&load(sizes, rate), 1, (line.parse().unwrap(), 20), [2; 6])
    }

    fn take(g: &mut Generator, n: usize) -> Vec<(u64, u64, u32, u32)> {
        (0..n)
            .map(|_| {
                let p = g.next();
                g.advance(Ps::ZERO);
                (p.id & 0xff, p.departed.0, p.length, p.flow)
            })
            .collect()
    }

    #[test]
    fn packets_in_turn() {
        let mut g = generator(Sizes::Fixed { size: 256 }, "40Gbps", "100Gbps").unwrap();
        assert_eq!((g.next().id >> ID_BITS, g.next().departed), (1, Ps::MAX));
        g.trickle_at(Ps(10), Ps::from_ns(500));
        assert_eq!(take(&mut g, 2), [(0, 10, 256, 0), (1, 500_010, 256, 1)]);
        g.start_at(Ps::from_us(1));
        // 2048 bits at 40 Gb/s are 51.2 ns.
        let expected = [(2, 1_000_000, 256, 0), (3, 1_051_200, 256, 1), (4, 1_102_400, 256, 2), (5, 1_153_600, 256, 0)];
        assert_eq!(take(&mut g, 4), expected);
        assert!(!g.line_limited);
    }

    #[test]
    fn a_mix_keeps_the_rate() {
        let sizes = Sizes::Mix { parts: vec![(64, 7), (570, 4), (1518, 1)] };
        let mut g = generator(sizes.clone(), "10Gbps", "100Gbps").unwrap();
        g.start_at(Ps::ZERO);
        let list = take(&mut g, 12_001);
        let bits = (12_000.0 * sizes.mean() * 8.0) as u64;
        assert_eq!(list[12_000].1, bits * 100, "ten bits a nanosecond");
        assert_eq!(list.iter().take(12_000).filter(|p| p.2 == 1518).count(), 1000);
    }

    #[test]
    fn another_load_goes_on_numbering() {
        let mut g = generator(Sizes::Fixed { size: 256 }, "40Gbps", "100Gbps").unwrap();
        g.start_at(Ps::ZERO);
        take(&mut g, 5);
        let mut load = g.load.clone();
        load.sizes = Sizes::Fixed { size: 63 };
        assert!(g.change(&load).is_err());
        load.sizes = Sizes::Fixed { size: 1000 };
        load.seed = 1;
        g.change(&load).unwrap();
        g.start_at(Ps::from_ns(500));
        assert_eq!(take(&mut g, 2), [(5, 500_000, 1000, 0), (6, 700_000, 1000, 1)]);
    }

    #[test]
    fn so_many_and_no_more() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "10Gbps", "100Gbps").unwrap();
        g.load.packets = Some(2);
        g.start_at(Ps::ZERO);
        assert!(!g.exhausted());
        assert_eq!(take(&mut g, 2).len(), 2);
        assert!(g.exhausted());
        assert_eq!(g.next().departed, Ps::MAX);
    }

    #[test]
    fn line_rate_is_the_limit() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "100Gbps", "100Gbps").unwrap();
        g.start_at(Ps::ZERO);
        assert!(g.line_limited);
        assert_eq!(take(&mut g, 1001)[1000].1, 6_720_000, "84 bytes on the line");
        let refused = |sizes, rate| generator(sizes, rate, "100Gbps").err().unwrap();
        assert!(refused(Sizes::Fixed { size: 64 }, "101Gbps").contains("at most the link's"));
        assert!(refused(Sizes::Fixed { size: 63 }, "1Gbps").contains("64 to 9000"));
    }

    /// 400 Gb/s of 64 B packets: 595 million a second, each on its picosecond.
    #[test]
    fn four_hundred_gigabits() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "400Gbps", "400Gbps").unwrap();
        g.start_at(Ps::ZERO);
        let list = take(&mut g, 1_000_000);
        assert!(list.iter().enumerate().all(|(k, p)| p.1 == k as u64 * 84 * 8 * 1000 / 400));
    }

    /// Answers go between the load's packets, and every frame has the line to itself.
    #[test]
    fn answers_take_their_place() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "100Gbps", "100Gbps").unwrap();
        g.start_at(Ps(1000));
        take(&mut g, 2);
        let arp = [
            &[0xff; 6][..],
            &[2, 0, 0, 0, 0, 9],
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 2],
            &[0; 6],
            &[10, 0, 0, 1],
        ]
        .concat();
        assert!(g.asked(&arp, Ps(2000)) && !g.asked(&[0; 60], Ps(3000)));
        let list: Vec<Packet> = (0..3)
            .map(|_| {
                let p = g.next();
                g.advance(Ps::ZERO);
                p
            })
            .collect();
        assert_eq!(list.iter().map(|p| p.kind == Kind::Answer).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(list.iter().map(|p| p.departed).collect::<Vec<_>>(), [2, 3, 4].map(|k| Ps(1000 + k * 6720)));
        assert_eq!((list[0].id >> ID_BITS, list[1].id & 0xff), (0x81, 2));
        assert_eq!(g.frame(&list[0])[20..22], [0, 2]);
    }

    #[test]
    fn clients_wait_for_answers() {
        let mut l = load(Sizes::Fixed { size: 64 }, "1Gbps");
        let timeout = "1ms".parse().unwrap();
        l.clients = Some(ClosedLoop { clients: 2, think: "0ns".parse().unwrap(), exponential: false, timeout });
        let mut g = Generator::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
        g.start_at(Ps::ZERO);
        assert_eq!(take(&mut g, 2), [(0, 0, 64, 0), (1, 6720, 64, 1)]);
        assert_eq!(g.next().departed, Ps::from_ms(1), "a time-out");
        assert!(g.returned(1, Ps::from_ns(50)) && !g.returned(1, Ps::from_ns(50)));
        assert_eq!(take(&mut g, 1), [(2, 50_000, 64, 1)]);
    }

    struct Long(u64);

    impl Source for Long {
        fn fill(&mut self, block: &mut Block) {
            for _ in 0..10.min(100 - self.0) {
                block.push(Ps(self.0 * 1000), &[self.0 as u8; 80], &[], 80);
                self.0 += 1;
            }
        }
        fn rewind(&mut self) {
            self.0 = 0;
        }
    }

    /// A trace's bytes are there when they are wanted, whatever was refused before.
    #[test]
    fn traces_are_played() {
        let mut l = load(Sizes::Fixed { size: 64 }, "1Gbps");
        l.play = Some(Play { clock: TraceClock::Captured { millionths: 1_000_000 }, loops: 1, mean_length: 84.0 });
        let mut g = Generator::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
        g.set_source(Box::new(Long(0)));
        g.start_at(Ps(7));
        let mut waiting = VecDeque::new();
        for k in 0..100u64 {
            let p = g.next();
            // 84 B and the gap take 8.32 ns: more than the distance.
            assert_eq!((p.id, p.length, p.departed), (k, 84, Ps(7 + k * 8320)));
            g.advance(Ps::ZERO);
            assert_eq!(g.headers(&p)[..7], [2, 2, 2, 2, 2, 2, k as u8]);
            if k % 3 == 0 {
                g.refused(&p);
            } else {
                waiting.push_back(p);
            }
            if k % 5 == 4 {
                let p: Packet = waiting.pop_front().unwrap();
                assert_eq!(g.frame(&p)[79], p.id as u8);
            }
        }
        assert!(g.exhausted());
    }
}
