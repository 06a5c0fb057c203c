//! The far end of the wire, where it is outside: a second simulated host, or a TAP of this machine.
//!
//! A second host is another QEMU whose engine simulates the same time. Each tells the other the frames that it sends, before
//! their first bit leaves, and a promise: it sends nothing that it has not told before that time. A frame takes a cable to
//! arrive, so each may simulate its NIC that much beyond the other's promise and no more. How far ahead either is depends on
//! the host; what it computes does not. The times of both count from the start of their traffic; before it, and after either
//! is done, the wire is cut.
//!
//! A TAP's frames come whenever the world sends them: nothing about such a run is deterministic.

use crate::settings::FarEnd;
use crate::stages::{Driven, Experiment, Stage};
use nix::errno::Errno;
use nix::sys::socket::{recv, send, MsgFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use wiretime_base::{Invalid, Ps};
use wiretime_hw::machine::{Hold, Machine};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{End, Timed, FCS, FRAME_MAX, FRAME_MIN};

/// How often the TAP is looked at while the guest idles: below what a person's network takes.
const TAP_POLL: Ps = Ps::from_us(100);
/// Looks at the socket before this thread sleeps: the other simulator is mostly about to answer.
const SPINS: u32 = 400;
/// The socket is full: until the other simulator has taken something.
const FULL: std::time::Duration = std::time::Duration::from_micros(20);
/// A promise without end: nothing more will be sent.
const BYE: Ps = Ps::MAX;
/// Promise and length of the frames behind it; time and length of each.
const HEADER: usize = 12;

/// What is at the other end.
pub enum Outside {
    /// Nothing of ours.
    Nothing,
    /// The world.
    Tap(File),
    /// Another simulated host.
    Host(Host),
}

impl Outside {
    /// As the run says.
    pub fn new(kind: FarEnd, fd: Option<OwnedFd>, p: &Platform) -> Result<Self, Invalid> {
        match (kind, fd) {
            (FarEnd::None, _) => Ok(Self::Nothing),
            (FarEnd::Tap, Some(fd)) => Ok(Self::Tap(File::from(fd))),
            (FarEnd::Host, Some(fd)) if p.quantum() <= p.lookahead() => Ok(Self::Host(Host::new(fd, p))),
            (FarEnd::Host, Some(_)) => {
                Err(Invalid::new("system.quantum", p.system.quantum, "at most the lookahead, with another host"))
            }
            (_, None) => Err(Invalid::new("far", "no descriptor", "plugin argument far= is missing")),
        }
    }
}

/// The connection to another simulated host.
pub struct Host {
    socket: OwnedFd,
    received: Vec<u8>,
    /// When our traffic started, while the wire is whole.
    zero: Option<Ps>,
    /// Promises, in time of the wire.
    theirs: Ps,
    ours: Ps,
    /// From a frame's first bit to its arrival at the other end: at least.
    cable: Ps,
    /// It went without a word.
    pub lost: bool,
}

impl Host {
    fn new(socket: OwnedFd, p: &Platform) -> Self {
        let link = p.port(0).link;
        let cable = link.rate.time_of(FRAME_MIN.into()) + link.latency.ps();
        Self { socket, received: Vec::new(), zero: None, theirs: Ps::ZERO, ours: Ps::ZERO, cable, lost: false }
    }

    /// Up to when every arrival is known.
    fn known(&self) -> Ps {
        self.zero.unwrap_or(Ps::ZERO).saturating_add(self.theirs).saturating_add(self.cable)
    }

    /// Tells frames, and that nothing else leaves before `promise`; without frames only what is worth a message, or, where
    /// we wait for the other, whatever it may wait for.
    fn tell(&mut self, promise: Ps, frames: impl Iterator<Item = Timed>, waits: bool) {
        let Some(zero) = self.zero else { return };
        let mut message = vec![0; HEADER];
        for (t, frame) in frames {
            message.extend_from_slice(&t.saturating_sub(zero).0.to_le_bytes());
            message.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            message.extend_from_slice(&frame);
        }
        let promise = if promise == BYE { BYE } else { promise.saturating_sub(zero) };
        let worth = if waits { Ps(1) } else { self.cable / 4 };
        if message.len() == HEADER && promise < self.ours.saturating_add(worth) {
            return;
        }
        self.ours = self.ours.max(promise);
        let length = (message.len() - HEADER) as u32;
        message[..8].copy_from_slice(&self.ours.0.to_le_bytes());
        message[8..HEADER].copy_from_slice(&length.to_le_bytes());
        let mut rest = &message[..];
        while !rest.is_empty() {
            match send(self.socket.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
                Ok(n) => rest = &rest[n..],
                // It may be waiting for us to take what it has told.
                Err(Errno::EAGAIN) => {
                    if !matches!(self.receive(MsgFlags::MSG_DONTWAIT), Ok(1..)) {
                        std::thread::sleep(FULL);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(_) => return, // it has gone: what it said last tells why
            }
        }
    }

    /// Nothing more is sent.
    pub fn bye(&mut self) {
        self.tell(BYE, std::iter::empty(), true);
        self.zero = None;
    }

    /// Waits for what it tells next, and takes whatever else it has told: each answer to each message would be one more
    /// under way.
    fn listen(&mut self) -> Vec<Timed> {
        let mut list = Vec::new();
        let mut spins = 0;
        loop {
            let heard = self.parse(&mut list);
            let wait = !heard && spins >= SPINS;
            match self.receive(if wait { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT }) {
                Ok(1..) => {}
                Err(Errno::EAGAIN) if heard => return list,
                Err(Errno::EAGAIN) => spins += 1,
                Err(Errno::EINTR) => {}
                _ => {
                    self.lost = self.theirs != BYE;
                    self.theirs = BYE;
                    return list;
                }
            }
        }
    }

    /// Takes bytes from the socket; 0: it has gone.
    fn receive(&mut self, flags: MsgFlags) -> nix::Result<usize> {
        let mut buffer = [0; 16384];
        let got = recv(self.socket.as_raw_fd(), &mut buffer, flags)?;
        self.received.extend_from_slice(&buffer[..got]);
        Ok(got)
    }

    /// Takes the messages that are here as a whole; whether there is one.
    fn parse(&mut self, list: &mut Vec<Timed>) -> bool {
        let zero = self.zero.unwrap_or(Ps::ZERO);
        let mut at = 0;
        while let Some(header) = self.received.get(at..at + HEADER) {
            let end = at + HEADER + word(header, 8) as usize;
            let promise = Ps(long(header, 0));
            let Some(mut frames) = self.received.get(at + HEADER..end) else { break };
            while let Some((header, rest)) = frames.split_at_checked(HEADER) {
                let (frame, rest) = rest.split_at((word(header, 8) as usize).min(rest.len()));
                // Receivers drop runts. They would also come before what is known of arrivals.
                if frame.len() + FCS as usize >= FRAME_MIN as usize {
                    list.push((zero.saturating_add(Ps(long(header, 0))), frame.to_vec()));
                }
                frames = rest;
            }
            self.theirs = self.theirs.max(promise);
            at = end;
        }
        self.received.drain(..at);
        at > 0
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Frames that the TAP has now.
fn read_tap(tap: &mut File) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buffer = [0; FRAME_MAX as usize];
    while let Ok(n @ 1..) = tap.read(&mut buffer) {
        let mut frame = buffer[..n].to_vec();
        frame.resize(n.max((FRAME_MIN - FCS) as usize), 0);
        frames.push(frame);
    }
    frames
}

impl Experiment {
    /// The wire is whole from `t` on.
    pub(crate) fn plug(&mut self, t: Ps) {
        if let Outside::Host(host) = &mut self.outside {
            host.zero = Some(t);
        }
    }

    /// And is cut.
    pub(crate) fn unplug(&mut self) {
        if let Outside::Host(host) = &mut self.outside {
            host.bye();
        }
    }

    /// Frames from and to the far end, where it is outside.
    pub(crate) fn far_frames<H: Hold>(&self, d: &Driven<'_, H>) -> Option<[u64; 2]> {
        let far =
            (self.settings.far != FarEnd::None).then(|| d.machine.nics.nics().slots[0].nic.cable().end().passed())?;
        Some([far.frames_in, far.frames_out])
    }

    /// Whether the other host has gone without a word.
    pub(crate) fn far_end_lost(&self) -> bool {
        matches!(&self.outside, Outside::Host(h) if h.lost)
    }

    /// Simulates the devices up to `end`, as far as the far end lets them, until it does. It is `now`.
    pub fn advance<H: Hold>(&mut self, end: Ps, now: Ps, machine: &mut Machine<H>) {
        if matches!(self.outside, Outside::Nothing) {
            self.simulate(end, machine);
        } else {
            self.advance_with_far_end(end, now, machine);
        }
    }

    fn simulate<H: Hold>(&self, end: Ps, machine: &mut Machine<H>) {
        machine.advance(end, !self.full_timing_of(self.stage));
    }

    #[cold]
    fn advance_with_far_end<H: Hold>(&mut self, end: Ps, now: Ps, machine: &mut Machine<H>) {
        match std::mem::replace(&mut self.outside, Outside::Nothing) {
            Outside::Nothing => self.simulate(end, machine),
            Outside::Tap(mut tap) => {
                let frames = read_tap(&mut tap);
                if self.stage == Stage::Traffic {
                    let frames = frames.into_iter().map(|f| (now, f)).collect();
                    machine.nics.nics().slots[0].nic.far_brings(frames);
                }
                self.simulate(end, machine);
                for (_, frame) in machine.nics.nics().slots[0].nic.cable_mut().to_far() {
                    let _ = tap.write(&frame); // a world that does not listen is nothing to us
                }
                self.outside = Outside::Tap(tap);
            }
            Outside::Host(mut host) => {
                while host.zero.is_some() {
                    let step = end.min(host.known());
                    self.simulate(step, machine);
                    let nic = &mut machine.nics.nics().slots[0].nic;
                    host.tell(step + nic.foresight(), nic.cable_mut().to_far().into_iter(), step < end);
                    if step >= end {
                        break;
                    }
                    nic.far_brings(host.listen());
                }
                if host.zero.is_none() {
                    self.simulate(end, machine);
                    drop(machine.nics.nics().slots[0].nic.cable_mut().to_far());
                }
                self.outside = Outside::Host(host);
            }
        }
    }

    /// When a device acts next, or the measurement begins or ends, or a point of it is due, as far as is known here.
    fn own_time<H: Hold>(&self, machine: &Machine<H>) -> Option<Ps> {
        let sample = Some(self.next_sample()).filter(|&t| t < Ps::MAX);
        machine.next_time().into_iter().chain(self.boundary()).chain(sample).min()
    }

    /// All cores sleep at `now`: when a device acts next, unless the timer at `timer` comes before.
    pub fn next_time<H: Hold>(&mut self, timer: Option<Ps>, now: Ps, machine: &mut Machine<H>) -> Option<Ps> {
        let own = self.own_time(machine);
        match std::mem::replace(&mut self.outside, Outside::Nothing) {
            Outside::Nothing => own,
            Outside::Tap(tap) => {
                self.outside = Outside::Tap(tap);
                let look = now + TAP_POLL;
                Some(own.map_or(look, |own| own.min(look)))
            }
            Outside::Host(mut host) => {
                let found = self.wait_for_host(&mut host, timer, machine);
                self.outside = Outside::Host(host);
                found
            }
        }
    }

    /// Listens until the next thing to happen here is known. Cores that sleep ring no doorbell before something wakes them.
    fn wait_for_host<H: Hold>(&mut self, host: &mut Host, timer: Option<Ps>, machine: &mut Machine<H>) -> Option<Ps> {
        let lookahead = self.platform.lookahead();
        loop {
            let own = self.own_time(machine);
            let (device, timer, known) = (own.unwrap_or(Ps::MAX), timer.unwrap_or(Ps::MAX), host.known());
            if host.zero.is_none() || device.min(timer) < known || host.theirs == BYE {
                return own;
            }
            let nic = &mut machine.nics.nics().slots[0].nic;
            let leaves = device.min(timer.min(known).saturating_add(lookahead));
            host.tell(leaves.saturating_add(nic.foresight()), std::iter::empty(), true);
            nic.far_brings(host.listen());
        }
    }
}
