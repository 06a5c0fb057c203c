//! An iperf3 client: drives a server in the guest, over TCP and UDP, in both directions (esnet/iperf: iperf_api.h, states of
//! the control connection; parameters and results as JSON).
//!
//! What the server says that it sent or received is kept beside what was counted here. Before the end is told, what was sent
//! is acknowledged and some time has passed: a server counts what its program has read, not what its kernel has.
//! Left out: authentication, SCTP, several UDP streams, `--bidir`.

use super::stack::Stack;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;
use std::collections::VecDeque;
use wiretime_base::{BitRate, Bytes, Duration, Invalid, Ps};

/// Protocol of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // names say it
pub enum Protocol {
    Tcp,
    Udp,
}

/// What the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IperfLoad {
    /// Of the streams.
    pub protocol: Protocol,
    /// The server sends.
    pub reverse: bool,
    /// Connections at a time.
    pub streams: u32,
    /// Bytes of a UDP datagram's payload, or of the server's writes.
    pub length: u32,
    /// Of UDP: bits of payload a second.
    pub rate: BitRate,
    /// Of a connection, each way.
    pub window: Bytes,
    /// Frames that the client takes at a time: from the first one's arrival. Interrupts of a receiver are moderated like
    /// that, and segments put together, so that it acknowledges several at once.
    pub coalesce: Duration,
    /// The server's.
    pub port: u16,
}

const STREAMS_MAX: u32 = 64;
const DATAGRAM: std::ops::RangeInclusive<u32> = 16..=1472;
const COOKIE: &[u8; 37] = b"wiretimewiretimewiretimewiretime1234\0";
const CONTROL_BUFFER: usize = 1 << 16;
/// From the last acknowledgement to telling the end: the server reads what its socket still holds.
const GRACE: Ps = Ps::from_ms(20);
/// Between entries of the time series, at first, and how many are kept: where there are more, every other goes.
const STEP: Ps = Ps::from_us(100);
const STEPS_MAX: usize = 20_000;
/// iperf3's first words over UDP.
const HELLO: [u8; 4] = 0x3637_3839u32.to_le_bytes();
const ZEROS: [u8; 16384] = [0; 16384];

/// States of the control connection.
mod state {
    pub const TEST_START: u8 = 1;
    pub const TEST_RUNNING: u8 = 2;
    pub const TEST_END: u8 = 4;
    pub const PARAM_EXCHANGE: u8 = 9;
    pub const CREATE_STREAMS: u8 = 10;
    pub const EXCHANGE_RESULTS: u8 = 13;
    pub const DISPLAY_RESULTS: u8 = 14;
    pub const IPERF_DONE: u8 = 16;
}

impl IperfLoad {
    /// # Errors
    /// Where it cannot be.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.streams == 0 || self.streams > STREAMS_MAX {
            return Err(Invalid::new("iperf: streams", self.streams, format!("allowed are 1 to {STREAMS_MAX}")));
        }
        if self.protocol == Protocol::Udp && (self.streams > 1 || !DATAGRAM.contains(&self.length)) {
            let found = format!("{} streams of {} B", self.streams, self.length);
            let allowed = format!("one over UDP, of {} to {} B", DATAGRAM.start(), DATAGRAM.end());
            return Err(Invalid::new("iperf", found, allowed));
        }
        if self.length == 0 {
            return Err(Invalid::new("iperf: length", self.length, "above zero"));
        }
        let window = self.window.bytes();
        if !(1 << 14..=1 << 28).contains(&window) {
            return Err(Invalid::new("iperf: window", self.window, "allowed are 16KiB to 256MiB"));
        }
        Ok(())
    }
}

/// What the client has counted, and what the server said at the end.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IperfReport {
    /// `running`, `done`, or why it failed.
    pub state: String,
    /// Payload bytes that the server acknowledged, or datagrams' that were sent.
    pub sent: u64,
    /// Payload bytes received.
    pub received: u64,
    /// Datagrams sent and received.
    pub datagrams: (u64, u64),
    /// The server's bytes, by its own results.
    pub server_bytes: Option<u64>,
    /// TCP segments seen twice on the wire until the streams were told to end: from here, and from the guest.
    pub retransmissions: (u64, u64),
    /// From a segment of a stream to its acknowledgement here, in ns, on average.
    pub round_trip_ns: Option<f64>,
    /// Begin of the series, and its step, in ns.
    pub series_begin_ns: f64,
    /// Its step.
    pub series_step_ns: f64,
    /// Bytes sent, bytes received, retransmissions of both sides, at the end of each step.
    pub series: Vec<[u64; 3]>,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Connecting,
    Talking,
    Running,
    /// No more is sent; the end is told once all is acknowledged, and then at this time.
    Ending(Option<Ps>),
    Results,
    Done,
    Failed(String),
}

/// What a TCP segment over IPv4 says.
struct Segment {
    ports: [u8; 4],
    /// One past its last byte's number; how many bytes it has; which byte it asks for.
    end: u32,
    payload: u32,
    acknowledges: u32,
}

/// Reads a frame's segment.
fn segment(f: &[u8]) -> Option<Segment> {
    if f.len() < 54 || f[12..14] != [8, 0] || f[23] != 6 {
        return None;
    }
    let header = usize::from(f[14] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([f[16], f[17]]));
    let tcp = f.get(14 + header..14 + header + 20)?;
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let payload = total.saturating_sub(header + usize::from(tcp[12] >> 4) * 4) as u32;
    let ports = [tcp[0], tcp[1], tcp[2], tcp[3]];
    Some(Segment { ports, end: word(4).wrapping_add(payload), payload, acknowledges: word(8) })
}

/// Sequence numbers seen of a connection's direction.
#[derive(Default)]
struct Seen(Vec<([u8; 4], u32)>);

impl Seen {
    /// Whether a segment repeats what has passed; one that does not is noted.
    fn repeats(&mut self, s: &Segment) -> bool {
        if s.payload == 0 {
            return false;
        }
        match self.0.iter_mut().find(|seen| seen.0 == s.ports) {
            Some(seen) if s.end.wrapping_sub(seen.1) as i32 <= 0 => true,
            Some(seen) => {
                seen.1 = s.end;
                false
            }
            None => {
                self.0.push((s.ports, s.end));
                false
            }
        }
    }
}

/// The round trip that is being measured: a segment's ports and end, and when it was sent.
struct Trip {
    ports: [u8; 4],
    end: u32,
    since: Ps,
}

impl Trip {
    /// Whether a segment from the other side acknowledges it.
    fn ends_with(&self, s: &Segment) -> bool {
        let [a, b, c, d] = self.ports;
        s.ports == [c, d, a, b] && s.acknowledges.wrapping_sub(self.end) as i32 >= 0
    }
}

/// See the module.
pub struct Iperf {
    spec: IperfLoad,
    stack: Stack,
    stage: Stage,
    control: Option<SocketHandle>,
    streams: Vec<SocketHandle>,
    greeted: usize,
    said: Vec<u8>,
    /// Bytes given to connections.
    given: Vec<u64>,
    /// What connections still have to send or to have acknowledged.
    unsent: u64,
    trip: Option<Trip>,
    trips: (f64, u64),
    /// UDP: when the next datagram leaves, and its number.
    next_datagram: Ps,
    /// The last datagram found no room before the line.
    line_full: bool,
    number: u64,
    seen: (Seen, Seen),
    /// Frames that have arrived, and when they are taken.
    arrived: VecDeque<(Ps, Vec<u8>)>,
    taken_at: Ps,
    begin: Ps,
    /// Between entries of its time series.
    step: Ps,
    /// The streams were told to end: the guest's time is coarse from there on.
    over: bool,
    report: IperfReport,
    scratch: Vec<u8>,
}

impl Iperf {
    /// A client that has not connected yet.
    ///
    /// # Errors
    /// Where it cannot do what is asked.
    pub fn new(spec: &IperfLoad, seed: u64) -> Result<Self, Invalid> {
        spec.check()?;
        Ok(Self {
            spec: *spec,
            stack: Stack::new(seed),
            stage: Stage::Connecting,
            control: None,
            streams: Vec::new(),
            greeted: 0,
            said: Vec::new(),
            given: vec![0; spec.streams as usize],
            unsent: 0,
            trip: None,
            trips: (0.0, 0),
            next_datagram: Ps::MAX,
            line_full: false,
            number: 0,
            seen: Default::default(),
            arrived: VecDeque::new(),
            taken_at: Ps::MAX,
            begin: Ps::ZERO,
            step: STEP,
            over: false,
            report: IperfReport::default(),
            scratch: vec![0; spec.length.max(2048) as usize],
        })
    }

    /// Connects at `t`.
    pub fn start(&mut self, t: Ps) {
        if self.control.is_none() {
            self.begin = t;
            self.control = self.stack.connect(self.spec.port, CONTROL_BUFFER);
        }
    }

    /// The streams end.
    pub fn finish(&mut self) {
        self.over = true;
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Ending(None);
        } else if matches!(self.stage, Stage::Connecting | Stage::Talking) {
            self.stage = Stage::Failed("the test did not begin in time".into());
        }
    }

    /// Whether it has more to do.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.control.is_some() && !matches!(self.stage, Stage::Done | Stage::Failed(_))
    }

    /// A frame from the host at `t`.
    pub fn arrives(&mut self, frame: &[u8], t: Ps) {
        if let Some(s) = segment(frame) {
            if self.seen.1.repeats(&s) && !self.over {
                self.report.retransmissions.1 += 1;
            }
            if let Some(trip) = self.trip.take_if(|trip| trip.ends_with(&s)) {
                self.trips = (self.trips.0 + t.saturating_sub(trip.since).as_f64(), self.trips.1 + 1);
            }
        }
        self.arrived.push_back((t, frame.to_vec()));
        self.taken_at = self.taken_at.min(self.taking(t));
    }

    /// When a frame that arrives at `t` is taken.
    fn taking(&self, t: Ps) -> Ps {
        let running = matches!(self.stage, Stage::Running | Stage::Ending(_));
        if running {
            t + self.spec.coalesce.ps()
        } else {
            t
        }
    }

    /// Works at `t`, with room for so many frames before the line; returns those that leave.
    pub fn work(&mut self, t: Ps, room: usize) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if t >= self.taken_at {
            while self.arrived.front().is_some_and(|a| a.0 <= t) {
                self.arrived.pop_front().into_iter().for_each(|a| self.stack.arrives(a.1));
            }
            self.taken_at = self.arrived.front().map_or(Ps::MAX, |a| self.taking(a.0));
        }
        for _ in 0..8 {
            self.stack.poll(t, room.saturating_sub(out.len()));
            let moved = self.step(t);
            let frames = self.stack.take();
            let quiet = frames.is_empty() && !moved;
            out.extend(frames);
            if quiet {
                break;
            }
        }
        for frame in &out {
            let Some(s) = segment(frame) else { continue };
            if self.seen.0.repeats(&s) {
                self.report.retransmissions.0 += u64::from(!self.over);
            } else if s.payload > 0 && self.trip.is_none() && self.stage == Stage::Running {
                self.trip = Some(Trip { ports: s.ports, end: s.end, since: t });
            }
        }
        self.note(t);
        out
    }

    /// When it has to work again by itself.
    #[must_use]
    pub fn wakes(&mut self) -> Ps {
        if !self.busy() {
            return self.taken_at;
        }
        let own = match self.stage {
            // A datagram that found the line full waits until it takes frames again, which asks for work by itself.
            Stage::Running if !self.spec.reverse && self.spec.protocol == Protocol::Udp && !self.line_full => {
                self.next_datagram
            }
            Stage::Ending(Some(at)) => at,
            _ => Ps::MAX,
        };
        self.stack.wakes().min(own).min(self.taken_at)
    }

    /// What was counted.
    #[must_use]
    pub fn report(&self) -> IperfReport {
        let mut r = self.report.clone();
        r.state = match &self.stage {
            Stage::Done => "done".into(),
            Stage::Failed(why) => why.clone(),
            _ => "running".into(),
        };
        r.round_trip_ns = (self.trips.1 > 0).then(|| self.trips.0 / self.trips.1 as f64 / 1000.0);
        (r.series_begin_ns, r.series_step_ns) = (self.begin.as_f64() / 1000.0, self.step.as_f64() / 1000.0);
        r
    }

    fn note(&mut self, t: Ps) {
        let r = &mut self.report;
        let retransmissions = r.retransmissions.0 + r.retransmissions.1;
        while t >= self.begin + (r.series.len() as u64 + 1) * self.step {
            r.series.push([r.sent, r.received, retransmissions]);
            if r.series.len() == STEPS_MAX {
                let mut number = 0;
                r.series.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                self.step = 2 * self.step;
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.stage = Stage::Failed(why.into());
    }

    fn say(&mut self, bytes: &[u8]) {
        if let Some(control) = self.control {
            let _ = self.stack.tcp(control).send_slice(bytes);
        }
    }

    fn say_json(&mut self, value: &Value) {
        let text = value.to_string();
        let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        self.say(&bytes);
    }

    /// One step of the test; whether something was done that the stack has to act on.
    fn step(&mut self, t: Ps) -> bool {
        let Some(control) = self.control else { return false };
        if self.stage == Stage::Connecting {
            match self.stack.tcp(control).state() {
                State::Established => {
                    self.say(COOKIE);
                    self.stage = Stage::Talking;
                    return true;
                }
                State::Closed => self.fail("the server refused the connection"),
                _ => {}
            }
            return false;
        }
        let before = self.said.len();
        let socket = self.stack.tcp(control);
        while socket.can_recv() {
            let said = &mut self.said;
            let _ = socket.recv(|data| {
                said.extend_from_slice(data);
                (data.len(), ())
            });
        }
        let mut moved = self.said.len() > before;
        while self.listen(t) {
            moved = true;
        }
        moved | self.greet() | self.stream(t) | self.ending(t)
    }

    /// Takes one thing that the server said; false where there is none whole.
    fn listen(&mut self, t: Ps) -> bool {
        if self.stage == Stage::Results {
            let Some(length) = self.said.first_chunk::<4>().map(|b| u32::from_be_bytes(*b) as usize) else {
                return false;
            };
            let Some(text) = self.said.get(4..4usize.saturating_add(length)) else { return false };
            let results: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
            let streams = results["streams"].as_array();
            self.report.server_bytes = streams.map(|s| s.iter().filter_map(|x| x["bytes"].as_u64()).sum());
            self.said.drain(..4 + length);
            self.stage = Stage::Talking;
            return true;
        }
        let Some(&said) = self.said.first() else { return false };
        self.said.remove(0);
        match said {
            state::PARAM_EXCHANGE => {
                let udp = self.spec.protocol == Protocol::Udp;
                let mut asked = json!({
                    if udp { "udp" } else { "tcp" }: true, "omit": 0, "time": 0, "num": 0, "blockcount": 0,
                    "parallel": self.spec.streams, "len": self.spec.length, "pacing_timer": 1000,
                    "client_version": "3.18",
                });
                if self.spec.reverse {
                    asked["reverse"] = json!(true);
                }
                if udp {
                    asked["bandwidth"] = json!(self.spec.rate.bits_per_second());
                    asked["udp_counters_64bit"] = json!(1);
                }
                self.say_json(&asked);
            }
            state::CREATE_STREAMS => self.open_streams(t),
            state::TEST_START => {}
            state::TEST_RUNNING => {
                self.stage = Stage::Running;
                self.next_datagram = t;
            }
            state::EXCHANGE_RESULTS => {
                let bytes = if self.spec.reverse { self.report.received } else { self.report.sent };
                let streams: Vec<Value> = (0..self.spec.streams)
                    .map(|i| {
                        let own = if i == 0 { bytes } else { 0 };
                        json!({ "id": if i == 0 { 1 } else { i + 2 }, "bytes": own, "retransmits": 0, "jitter": 0.0,
                                "errors": 0, "omitted_errors": 0, "packets": self.number, "omitted_packets": 0,
                                "start_time": 0, "end_time": t.saturating_sub(self.begin).seconds() })
                    })
                    .collect();
                self.say_json(&json!({
                    "cpu_util_total": 0.0, "cpu_util_user": 0.0, "cpu_util_system": 0.0, "sender_has_retransmits": 0,
                    "congestion_used": "cubic", "streams": streams,
                }));
                self.stage = Stage::Results;
            }
            state::DISPLAY_RESULTS => {
                self.say(&[state::IPERF_DONE]);
                let all: Vec<SocketHandle> = self.control.into_iter().chain(self.tcp_streams()).collect();
                all.into_iter().for_each(|s| self.stack.tcp(s).close());
                self.stage = Stage::Done;
            }
            other => self.fail(&format!("the server said {other}: it ended the test")),
        }
        true
    }

    fn tcp_streams(&self) -> Vec<SocketHandle> {
        if self.spec.protocol == Protocol::Tcp {
            self.streams.clone()
        } else {
            Vec::new()
        }
    }

    fn open_streams(&mut self, t: Ps) {
        let (port, window) = (self.spec.port, self.spec.window.bytes() as usize);
        for _ in 0..self.spec.streams {
            let opened = match self.spec.protocol {
                Protocol::Tcp => self.stack.connect(port, window),
                Protocol::Udp => self.stack.bind(),
            };
            let Some(stream) = opened else { return self.fail("no stream could be opened") };
            self.streams.push(stream);
        }
        self.next_datagram = t;
    }

    /// New streams say who they belong to.
    fn greet(&mut self) -> bool {
        let before = self.greeted;
        match self.spec.protocol {
            Protocol::Tcp => {
                while let Some(&stream) = self.streams.get(self.greeted) {
                    let socket = self.stack.tcp(stream);
                    if !socket.may_send() {
                        break;
                    }
                    let _ = socket.send_slice(COOKIE);
                    self.greeted += 1;
                }
            }
            Protocol::Udp => {
                if let (Some(&stream), 0) = (self.streams.first(), self.greeted) {
                    self.stack.send(stream, self.spec.port, &HELLO);
                    self.greeted = 1;
                }
            }
        }
        self.greeted > before
    }

    fn stream(&mut self, t: Ps) -> bool {
        match self.spec.protocol {
            Protocol::Tcp => self.stream_tcp(),
            Protocol::Udp => self.stream_udp(t),
        }
    }

    fn stream_tcp(&mut self) -> bool {
        let (mut moved, mut queued, mut unsent) = (false, 0, 0);
        for i in 0..self.streams.len() {
            let socket = self.stack.tcp(self.streams[i]);
            let mut taken = 0;
            while socket.can_recv() {
                taken += socket.recv(|data| (data.len(), data.len())).unwrap_or(0) as u64;
            }
            self.report.received += taken;
            // A server counts whole blocks only: the last one is completed.
            let block = u64::from(self.spec.length);
            let wanted = match self.stage {
                Stage::Running if !self.spec.reverse => u64::MAX,
                Stage::Ending(None) => self.given[i].next_multiple_of(block) - self.given[i],
                _ => 0,
            };
            let mut left = wanted;
            while left > 0 && socket.can_send() {
                let piece = &ZEROS[..left.min(ZEROS.len() as u64) as usize];
                let n = socket.send_slice(piece).unwrap_or(0) as u64;
                self.given[i] += n;
                left -= n;
                moved |= n > 0;
            }
            if self.stage != Stage::Running {
                unsent += left;
            }
            queued += socket.send_queue() as u64;
        }
        self.unsent = unsent + queued;
        let given: u64 = self.given.iter().sum();
        if !self.spec.reverse && given > 0 {
            // Cookies are acknowledged long since.
            self.report.sent = given.saturating_sub(queued);
        }
        moved
    }

    fn stream_udp(&mut self, t: Ps) -> bool {
        let Some(&stream) = self.streams.first() else { return false };
        let (mut datagrams, mut bytes) = (0, 0);
        while self.stack.receive(stream, |data| {
            if data.len() > HELLO.len() {
                (datagrams, bytes) = (datagrams + 1, bytes + data.len() as u64);
            }
        }) {}
        self.report.received += bytes;
        self.report.datagrams.1 += datagrams;
        let mut moved = false;
        while self.stage == Stage::Running && !self.spec.reverse && t >= self.next_datagram {
            self.number += 1;
            let mut data = std::mem::take(&mut self.scratch);
            let (seconds, rest) = (t / Ps::from_s(1), (t % Ps::from_s(1)).us());
            data[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
            data[4..8].copy_from_slice(&(rest as u32).to_be_bytes());
            data[8..16].copy_from_slice(&self.number.to_be_bytes());
            let sent = self.stack.send(stream, self.spec.port, &data[..self.spec.length as usize]);
            self.scratch = data;
            self.line_full = !sent;
            if !sent {
                self.number -= 1;
                break;
            }
            self.report.sent += u64::from(self.spec.length);
            self.report.datagrams.0 += 1;
            self.next_datagram += self.spec.rate.time_of(self.spec.length.into());
            moved = true;
        }
        moved
    }

    fn ending(&mut self, t: Ps) -> bool {
        let Stage::Ending(at) = self.stage else { return false };
        match at {
            None => {
                if self.unsent == 0 || self.spec.reverse {
                    self.stage = Stage::Ending(Some(t + GRACE));
                }
                false
            }
            Some(at) if t >= at => {
                self.say(&[state::TEST_END]);
                self.stage = Stage::Talking;
                true
            }
            Some(_) => false,
        }
    }
}
