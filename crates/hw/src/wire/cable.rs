//! A cable with what is at its far end: which frame leaves there when, and what is there of it. Whatever the simulator does
//! meanwhile, times are exact.
//!
//! Frames take the line one after the other. Those of the end's own load are numbered, followed and measured; what it has to
//! say otherwise (an answer to the host's question, a client's segments) goes between them.

use super::ends::{Draft, End, Ends, Wish};
use super::far::Timed;
use super::flows::Picker;
use super::frames::{self, Frames, Kind, Packet, Traffic};
use super::line::Line;
use super::load::Load;
use super::pace::{Pace, Pacing};
use super::replay::{Source, TraceClock};
use super::sizes::Lengths;
use super::FCS;
use std::collections::VecDeque;
use wiretime_base::{BitRate, Invalid, Ps};

/// Bits of a packet's number below the number of its port.
pub const ID_BITS: u32 = 56;
/// Set beside the port's number in the numbers of an end's answers.
pub const ANSWER: u64 = 0x80;

/// Sizes, flows and think times are drawn apart from distances.
pub(super) const SIZES_SEED: u64 = 0x5175_6573;
pub(super) const FLOWS_SEED: u64 = 0x666c_6f77;
/// Answers that wait for the line; the host asks in vain where it floods us.
const ANSWERS_MAX: usize = 1024;
/// Frames of a client that wait for the line: with fewer, beside those that a cable holds, it makes more.
const REFILL: usize = 32;
/// Bits of a full frame on the line.
const FULL_FRAME: u64 = 1538 * 8;

/// Frames that find out whether the host takes any: so far apart, all of one length.
struct Knocks {
    length: u32,
    picker: Picker,
    /// While they are sent: when the next one leaves, and how far apart they are.
    under_way: Option<(Ps, Ps)>,
}

/// The cable of one port.
pub struct Cable {
    port: u8,
    load: Load,
    line: Line,
    link: (BitRate, u32),
    /// What is at its far end, and how what it sends is paced.
    end: Ends,
    pacing: Pacing,
    pace: Pace,
    frames: Frames,
    knocks: Knocks,
    /// The end's next packet, and when it wants to leave.
    draft: Draft,
    wanted: Ps,
    remaining: u64,
    /// What goes between: ready when, what.
    answers: VecDeque<(Ps, Vec<u8>)>,
    answered: u64,
    next: Packet,
    /// What an earlier load has sent, and has not arrived.
    on_wire: VecDeque<Packet>,
    /// Bytes of packets that have left and are not all in memory yet, in order, where they cannot be made again.
    held: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    refill: usize,
    /// Whether the other end pulls the load's packets whenever it likes: then nothing leaves by itself.
    pub(crate) pulled: bool,
    /// A packet is there to be pulled; and from when on none is any more.
    offers: bool,
    pulls_end: Ps,
    /// Whether the wanted rate exceeds what the line carries at this packet size, so that it sends back to back.
    pub line_limited: bool,
}

impl Cable {
    /// The cable of port `port`, whose host is `destination`, on a line of `line` with `gap` bytes between frames; what is at
    /// its far end sends `load`.
    ///
    /// # Errors
    /// Where a packet cannot be built, or the rate is above the line's.
    pub fn new(load: &Load, port: u8, link: (BitRate, u32), destination: [u8; 6]) -> Result<Self, Invalid> {
        load.sizes.check()?;
        let kind = (load.traffic, load.internet, load.flows.vary);
        let target = if load.networks { [198, 18, port, frames::TARGET as u8] } else { frames::HOST };
        let frames = Frames::new(kind, load.sizes.range().0, load.timestamp_offset, (destination, target))?;
        let (rate, line) = (load.rate, link.0);
        if rate > line {
            return Err(Invalid::new("rate", rate, format!("at most the link's, {line} (link.rate)")));
        }
        let mean = load.mean_length();
        let carried = line.bits_per_second() as f64 * mean / (mean + f64::from(link.1));
        let by_rate = !load.far && load.clients.is_none() && load.play.is_none_or(|p| p.clock == TraceClock::Rate);
        let mut load = load.clone();
        load.seed ^= u64::from(port) << 32;
        if load.store.is_some() != (load.traffic == Traffic::Memcached) {
            return Err(Invalid::new("load.store", "alone", "store and traffic memcached belong together"));
        }
        if load.iperf.is_some() != (load.traffic == Traffic::Iperf) {
            return Err(Invalid::new("load.iperf", "alone", "iperf and traffic iperf belong together"));
        }
        let end = Ends::new(&load, destination)?;
        let length = Lengths::new(&load.sizes, load.seed ^ SIZES_SEED).next();
        let first = Packet { id: u64::from(port) << ID_BITS, length, ..Packet::default() };
        Ok(Self {
            port,
            line: Line::new(link),
            link,
            frames,
            knocks: Knocks { length, picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?, under_way: None },
            draft: Draft { packet: first, bytes: Vec::new() },
            wanted: Ps::MAX,
            remaining: u64::MAX,
            answers: VecDeque::new(),
            answered: 0,
            next: Packet { departed: Ps::MAX, ..first },
            on_wire: VecDeque::new(),
            held: VecDeque::new(),
            spare: Vec::new(),
            refill: REFILL,
            pulled: false,
            offers: false,
            pulls_end: Ps::MAX,
            line_limited: by_rate && rate.bits_per_second() as f64 > carried,
            end,
            pacing: Pacing::new(&load, BitRate::new(carried as u64).unwrap_or(line)),
            pace: Pace::Waits,
            load,
        })
    }

    /// What is at its far end.
    #[must_use]
    pub fn end(&self) -> &Ends {
        &self.end
    }

    /// It takes so long from one end to the other.
    pub fn set_latency(&mut self, latency: Ps) {
        let bits = u128::from(self.link.0.bits_per_second()) * u128::from(latency.0) / u128::from(Ps::from_s(1).0);
        self.refill = REFILL + (bits as u64 / FULL_FRAME) as usize;
    }

    /// Where the load's packets come from, if it plays a trace.
    pub fn set_source(&mut self, source: Box<dyn Source>) {
        self.end.set_source(source);
    }

    /// Packets leave as configured, from `t` on.
    pub fn start_at(&mut self, t: Ps) {
        self.pulls_end = Ps::MAX;
        self.knocks.under_way = None;
        self.remaining = self.load.packets.unwrap_or(u64::MAX);
        self.end.start(t);
        if self.end.is_paced() {
            self.pace = self.pacing.start(t);
        }
        self.work(t);
        self.draw();
        self.decide();
    }

    /// Another load, from the next start on; of this one what leaves before `t` goes on its way. Packets go on being numbered.
    ///
    /// # Errors
    /// As in [`Cable::new`]; the load in force then stays.
    pub fn change(&mut self, load: &Load, t: Ps) -> Result<(), Invalid> {
        let new = Self::new(load, self.port, self.link, self.destination())?;
        while self.next.departed < t {
            self.on_wire.push_back(self.next);
            self.leaves(t);
        }
        let old = std::mem::replace(self, new);
        (self.line, self.on_wire) = (old.line, old.on_wire);
        self.end.inherit(old.end);
        (self.draft.packet.id, self.answers, self.answered) = (old.draft.packet.id, old.answers, old.answered);
        (self.held, self.spare, self.refill) = (old.held, old.spare, old.refill);
        self.pulled = old.pulled;
        self.decide();
        Ok(())
    }

    /// Packets that only find out whether the host takes any leave `interval` apart, the first at `t`.
    pub fn trickle_at(&mut self, t: Ps, interval: Ps) {
        self.knocks.under_way = Some((t, interval));
        (self.wanted, self.remaining) = (t, u64::MAX);
        self.knock();
        self.decide();
    }

    fn knock(&mut self) {
        let packet = &mut self.draft.packet;
        (packet.kind, packet.length, packet.flow) = (Kind::Built, self.knocks.length, self.knocks.picker.next());
        self.end.knock(&mut self.draft);
    }

    /// Whether nothing is left to send, ever.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.on_wire.is_empty() && self.wanted == Ps::MAX && !self.end.endless() && !self.pace.endless()
    }

    /// Requests that clients gave up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.pace.given_up()
    }

    /// Number of the load's next packet.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.draft.packet.id
    }

    /// The end's next packet: what, and when it wants to leave.
    fn draw(&mut self) {
        let wish = if self.remaining > 0 { self.end.draw(&mut self.draft) } else { None };
        if self.pulled {
            (self.offers, self.wanted) = (wish.is_some(), Ps::MAX);
            return;
        }
        self.wanted = match wish {
            Some(Wish::At(t)) => t,
            Some(Wish::Paced(bytes)) => self.pace.next(bytes).unwrap_or(Ps::MAX),
            None => Ps::MAX,
        };
    }

    /// Which packet leaves next: the load's or an answer.
    fn decide(&mut self) {
        // What a card pulls has no time of its own.
        if self.knocks.under_way.is_none() && !self.pulled {
            if let Some((t, client)) = self.pace.turn() {
                self.wanted = if self.remaining == 0 { Ps::MAX } else { t };
                self.draft.packet.flow = client;
                self.end.given_to(&mut self.draft);
            }
        }
        let own = self.draft.packet;
        let departs = if self.wanted == Ps::MAX { Ps::MAX } else { self.line.free(self.wanted) };
        // What the end of the load keeps back holds up no answer.
        let over = departs >= self.pulls_end;
        self.next = match self.answers.front() {
            Some((ready, bytes)) if over || *ready <= departs => Packet {
                id: (u64::from(self.port) | ANSWER) << ID_BITS | self.answered,
                departed: self.line.free(*ready),
                length: bytes.len() as u32 + FCS,
                flow: 0,
                kind: Kind::Answer,
            },
            _ if over => Packet { departed: Ps::MAX, ..own },
            _ => Packet { departed: departs, ..own },
        };
    }

    /// The packet that arrives next; it never leaves, where its time is the end of all.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Packet {
        self.on_wire.front().copied().unwrap_or(self.next)
    }

    /// The length of the packet that can be pulled at `t`, where there is one.
    #[must_use]
    pub fn pulls(&self, t: Ps) -> Option<u32> {
        (self.offers && t < self.pulls_end).then_some(self.draft.packet.length)
    }

    /// It is pulled at `t`.
    pub fn pull(&mut self, t: Ps) -> Packet {
        let packet = Packet { departed: t, ..self.draft.packet };
        self.end.sent(&self.draft, t);
        self.draft.packet.id += 1;
        self.remaining = self.remaining.saturating_sub(1);
        if packet.kind == Kind::Replayed {
            let bytes = std::mem::replace(&mut self.draft.bytes, self.spare.pop().unwrap_or_default());
            self.held.push_back((packet.id, bytes));
        }
        self.draw();
        self.decide();
        packet
    }

    /// That packet has arrived, now.
    #[inline]
    pub fn advance(&mut self, now: Ps) {
        if self.on_wire.pop_front().is_none() {
            self.leaves(now);
        }
    }

    /// The packet that leaves next has left.
    fn leaves(&mut self, now: Ps) {
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
            self.end.sent(&self.draft, departed);
            self.pace.sent(id, departed);
            self.draft.packet.id += 1;
            self.remaining = self.remaining.saturating_sub(1);
            if kind == Kind::Replayed {
                let bytes = std::mem::replace(&mut self.draft.bytes, self.spare.pop().unwrap_or_default());
                self.held.push_back((id, bytes));
            }
            if let Some((t, interval)) = &mut self.knocks.under_way {
                *t += *interval;
                self.wanted = *t;
                self.knock();
            } else {
                self.draw();
            }
        }
        self.decide();
    }

    /// A frame came back at `t` that answers packet `id`; whether that changes what leaves next.
    pub fn returned(&mut self, id: u64, t: Ps) -> bool {
        let changes = self.pace.answered(id, t);
        if changes {
            self.decide();
        }
        changes
    }

    /// A frame came at `t`, whatever it is; whether that changes what leaves next.
    #[inline]
    pub fn heard(&mut self, frame: &[u8], t: Ps) -> bool {
        self.end.heard(frame, t)
    }

    /// Frames leave the far end, in order of time.
    pub fn far_brings(&mut self, frames: Vec<Timed>) {
        self.end.bring(frames);
        if self.wanted == Ps::MAX {
            self.draw();
            self.decide();
        }
    }

    /// The port sends a frame whose first bit leaves at `t`.
    #[inline]
    pub fn far_takes(&mut self, t: Ps, frame: &[u8]) {
        self.end.takes(t, frame);
    }

    /// Frames on their way to the far end.
    pub fn to_far(&mut self) -> Vec<Timed> {
        self.end.outgoing()
    }

    /// When the end has to be woken.
    #[must_use]
    pub fn wakes(&mut self) -> Ps {
        self.end.wakes()
    }

    /// The end works at `t`: what it says waits for the line.
    pub fn work(&mut self, t: Ps) {
        let frames = self.end.work(t, (2 * self.refill).saturating_sub(self.answers.len()));
        if let Some(frames) = frames {
            self.answers.extend(frames.into_iter().map(|f| (t, f)));
            self.decide();
        }
    }

    /// The load is over; clients say so.
    pub fn finish(&mut self, t: Ps) {
        self.pulls_end = t;
        self.end.finish();
        self.work(t);
        self.decide();
    }

    /// Whether a client has not finished yet.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.end.busy()
    }

    /// A frame came at `t` that answers nothing; whether there is something to say to it, which changes what leaves next.
    pub fn asked(&mut self, frame: &[u8], t: Ps) -> bool {
        if self.answers.len() >= ANSWERS_MAX {
            return false;
        }
        let Some(answer) = self.end.asked(frame) else { return false };
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

    /// A packet that has arrived goes no further.
    pub fn refused(&mut self, packet: &Packet) {
        if packet.kind == Kind::Built {
            return;
        }
        // One that has just arrived is the last, but for those that an earlier load has sent behind it; of a FIFO it is the first.
        let first = self.held.front().is_some_and(|h| h.0 == packet.id).then_some(0);
        if let Some(at) = first.or_else(|| self.held.iter().rposition(|h| h.0 == packet.id)) {
            self.spare.extend(self.held.remove(at).map(|h| h.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::ClosedLoop;
    use super::super::flows::{Flows, Spread, Vary};
    use super::super::replay::{Block, Play};
    use super::super::sizes::Sizes;
    use super::*;

    fn load(sizes: Sizes, rate: &str) -> Load {
        Load {
            sizes,
            rate: rate.parse().unwrap(),
            flows: Flows { count: 3, spread: Spread::RoundRobin, vary: Vary::Ports },
            ..Load::default()
        }
    }

    fn generator(sizes: Sizes, rate: &str, line: &str) -> Result<Cable, Invalid> {
        Cable::new(&load(sizes, rate), 1, (line.parse().unwrap(), 20), [2; 6])
    }

    fn take(g: &mut Cable, n: usize) -> Vec<(u64, u64, u32, u32)> {
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
        assert!(g.change(&load, Ps::ZERO).is_err());
        load.sizes = Sizes::Fixed { size: 1000 };
        load.seed = 1;
        // The sixth and seventh have left when the load changes, 51.2 ns apart, and arrive after that.
        g.change(&load, Ps::from_ns(320)).unwrap();
        g.start_at(Ps::from_ns(500));
        let left = [(5, 256_000, 256, 2), (6, 307_200, 256, 0)];
        assert_eq!(take(&mut g, 4), [&left[..], &[(7, 500_000, 1000, 0), (8, 700_000, 1000, 1)]].concat());
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
        let refused = |sizes, rate| generator(sizes, rate, "100Gbps").err().unwrap().to_string();
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

    /// Who only listens answers questions and sends nothing else; another host answers for itself.
    #[test]
    fn who_listens_answers_and_another_host_speaks_for_itself() {
        let solicitation = |who: &Cable| {
            let mut f = vec![0; 60];
            f[..6].copy_from_slice(&who.destination());
            f[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 6]);
            f[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
            f[28..32].copy_from_slice(&[10, 0, 0, 2]);
            f[38..42].copy_from_slice(&[10, 0, 0, 1]);
            f
        };
        let mut l = load(Sizes::Fixed { size: 64 }, "1Gbps");
        l.packets = Some(0);
        let mut quiet = Cable::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
        quiet.start_at(Ps(7));
        assert!(quiet.exhausted() && matches!(quiet.end(), Ends::Listener(_)));
        assert!(quiet.asked(&solicitation(&quiet), Ps(1000)));
        assert_eq!((quiet.next().kind, quiet.next().departed), (Kind::Answer, Ps(1000)));
        // What has not left when the load ends stays, and holds up no answer.
        l.packets = None;
        let mut loaded = Cable::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
        loaded.start_at(Ps(7));
        loaded.advance(Ps(7));
        let left = loaded.next().departed;
        loaded.finish(left);
        assert!(left < Ps::MAX && loaded.next().departed == Ps::MAX);
        let later = left + Ps::from_ms(1);
        assert!(loaded.asked(&solicitation(&loaded), later));
        assert_eq!((loaded.next().kind, loaded.next().departed), (Kind::Answer, later));
        l.far = true;
        let mut host = Cable::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
        host.start_at(Ps(7));
        assert!(!host.exhausted() && !host.asked(&solicitation(&host), Ps(1000)));
        host.far_takes(Ps(20), &[1; 60]);
        assert_eq!(host.to_far(), [(Ps(20), vec![1; 60])]);
        host.far_brings(vec![(Ps(50), vec![9; 80])]);
        let brought = host.next();
        assert_eq!((brought.departed, brought.length, brought.kind), (Ps(50), 84, Kind::Replayed));
        host.advance(Ps(60));
        assert_eq!((host.frame(&brought)[79], host.next().departed), (9, Ps::MAX));
    }

    #[test]
    fn clients_wait_for_answers() {
        let mut l = load(Sizes::Fixed { size: 64 }, "1Gbps");
        let timeout = "1ms".parse().unwrap();
        l.clients = Some(ClosedLoop { clients: 2, think: "0ns".parse().unwrap(), exponential: false, timeout });
        let mut g = Cable::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
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
        let mut g = Cable::new(&l, 0, ("100Gbps".parse().unwrap(), 20), [2; 6]).unwrap();
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
