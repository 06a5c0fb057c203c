//! What can be at the far end of a cable: the load generator in its kinds, a second host or a TAP, or somebody who only
//! listens. All behind one trait, whose methods do nothing unless an end has something to do.

mod generator;
mod player;
mod requests;

use super::answers;
use super::far::{Far, FarStats, Timed};
use super::frames::{Kind, Packet};
use super::iperf::{Iperf, IperfReport};
use super::key_value::StoreStats;
use super::load::Load;
use super::replay::Source;
use super::stack::Stack;
use super::FCS;
use enum_dispatch::enum_dispatch;
use generator::Generator;
use player::Player;
use requests::Requests;
use wiretime_base::{Invalid, Ps};

/// The next packet, as an end makes it up.
#[derive(Debug, Default)]
pub struct Draft {
    /// Number, length, flow and kind.
    pub packet: Packet,
    /// Its bytes without FCS, where they are not built from the former.
    pub bytes: Vec<u8>,
}

impl Draft {
    /// It is these bytes, which are there already.
    fn as_it_is(&mut self, flow: u32) {
        let length = self.bytes.len() as u32 + FCS;
        (self.packet.kind, self.packet.length, self.packet.flow) = (Kind::Replayed, length, flow);
    }
}

/// When a packet wants to leave.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// Then.
    At(Ps),
    /// As the load is paced, counting as so many bytes.
    Paced(u32),
}

/// Who is at the far end of a cable.
#[enum_dispatch]
pub trait End {
    /// The load begins at `t`.
    fn start(&mut self, _t: Ps) {}
    /// The next packet, unless nothing is left; when it wants to leave.
    fn draw(&mut self, _draft: &mut Draft) -> Option<Wish> {
        None
    }
    /// The packet that was drawn is another client's: that of the flow it has now.
    fn given_to(&mut self, _draft: &mut Draft) {}
    /// A packet is to find out whether the host takes any: one that can be told from others, unless it is made up here.
    fn knock(&mut self, _draft: &mut Draft) {}
    /// The packet has left at `t`.
    fn sent(&mut self, _draft: &Draft, _t: Ps) {}
    /// The port sends a frame whose first bit leaves at `t`.
    fn takes(&mut self, _t: Ps, _frame: &[u8]) {}
    /// A frame has come at `t`, whatever it is; whether that changes what leaves next.
    fn heard(&mut self, _frame: &[u8], _t: Ps) -> bool {
        false
    }
    /// A frame has come that answers nothing: what is to be said to it.
    fn asked(&self, frame: &[u8]) -> Option<Vec<u8>> {
        answers::answer(frame)
    }
    /// When it has to work by itself.
    fn wakes(&mut self) -> Ps {
        Ps::MAX
    }
    /// It works at `t`, with room for so many frames: those that it says between its packets, where it may.
    fn work(&mut self, _t: Ps, _room: usize) -> Option<Vec<Vec<u8>>> {
        None
    }
    /// The load is over.
    fn finish(&mut self) {}
    /// Whether it has more to do.
    fn busy(&self) -> bool {
        false
    }
    /// Whether packets may come though none is drawn.
    fn endless(&self) -> bool {
        false
    }
    /// Where its packets come from, if it plays a trace.
    fn set_source(&mut self, _source: Box<dyn Source>) {}
    /// Frames that leave there, in order of time.
    fn bring(&mut self, _frames: Vec<Timed>) {}
    /// Frames on their way there.
    fn outgoing(&mut self) -> Vec<Timed> {
        Vec::new()
    }
    /// What passed between here and there, where there is another host.
    fn passed(&self) -> FarStats {
        FarStats::default()
    }
    /// What became of requests to a store.
    fn store_stats(&self) -> Option<StoreStats> {
        None
    }
    /// What an iperf3 client counted.
    fn iperf_report(&self) -> Option<IperfReport> {
        None
    }
}

/// All there are.
#[allow(clippy::large_enum_variant)] // one for each port
#[enum_dispatch(End)]
pub enum Ends {
    /// Sends packets made to measure.
    Generator,
    /// Plays a trace.
    Player,
    /// Clients of a key-value store.
    Requests,
    /// An iperf3 client.
    Iperf,
    /// Another host, or the world behind a TAP.
    Far,
    /// Sends nothing by itself.
    Listener,
}

/// See [`Ends`].
#[derive(Debug, Default)]
pub struct Listener;

impl End for Listener {}

impl Ends {
    /// Who sends this load, to `destination`.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn new(load: &Load, destination: [u8; 6]) -> Result<Self, Invalid> {
        Ok(if load.far {
            Far::default().into()
        } else if let Some(spec) = &load.iperf {
            Iperf::new(spec, load.seed)?.into()
        } else if let Some(spec) = &load.store {
            Requests::new(spec, load, destination)?.into()
        } else if let Some(play) = load.play {
            Player::new(play, load, destination).into()
        } else if load.packets == Some(0) {
            Listener.into()
        } else {
            Generator::new(load)?.into()
        })
    }

    /// Whether its packets leave as the load is paced.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        matches!(self, Self::Generator(_) | Self::Player(_) | Self::Requests(_))
    }

    /// What stays from one load to the next.
    pub fn inherit(&mut self, old: Self) {
        match (self, old) {
            (Self::Player(new), Self::Player(old)) => new.inherit(old),
            (Self::Requests(new), Self::Requests(old)) => new.inherit(old),
            _ => {}
        }
    }
}

impl End for Far {
    fn sent(&mut self, draft: &Draft, _: Ps) {
        self.arrived(&draft.bytes);
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Wish> {
        let (t, bytes) = self.next()?;
        draft.bytes = bytes;
        draft.as_it_is(0);
        Some(Wish::At(t))
    }
    fn takes(&mut self, t: Ps, frame: &[u8]) {
        Far::takes(self, t, frame);
    }
    fn asked(&self, _: &[u8]) -> Option<Vec<u8>> {
        None // it answers for itself
    }
    fn endless(&self) -> bool {
        true
    }
    fn bring(&mut self, frames: Vec<Timed>) {
        frames.into_iter().for_each(|(t, frame)| self.brings(t, frame));
    }
    fn outgoing(&mut self) -> Vec<Timed> {
        Far::outgoing(self).collect()
    }
    fn passed(&self) -> FarStats {
        self.stats.clone()
    }
}

impl End for Iperf {
    fn start(&mut self, t: Ps) {
        Iperf::start(self, t);
    }
    fn heard(&mut self, frame: &[u8], t: Ps) -> bool {
        let ours = Stack::takes(frame);
        if ours {
            self.arrives(frame, t);
        }
        ours
    }
    fn asked(&self, frame: &[u8]) -> Option<Vec<u8>> {
        if Stack::takes(frame) {
            return None; // heard
        }
        answers::answer(frame)
    }
    fn wakes(&mut self) -> Ps {
        Iperf::wakes(self)
    }
    fn work(&mut self, t: Ps, room: usize) -> Option<Vec<Vec<u8>>> {
        Some(Iperf::work(self, t, room))
    }
    fn finish(&mut self) {
        Iperf::finish(self);
    }
    fn busy(&self) -> bool {
        Iperf::busy(self)
    }
    fn iperf_report(&self) -> Option<IperfReport> {
        Some(self.report())
    }
}
