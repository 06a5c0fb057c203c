//! A trace that is played: by its own timestamps, by an arrival process, or when clients have thought enough.

use super::super::load::Load;
use super::super::replay::{Play, Replay, Source, TraceClock};
use super::generator::{Pace, Pacing};
use super::{Draft, End};
use wiretime_base::{BitRate, Ps};

/// See the module.
pub struct Player {
    play: Play,
    destination: [u8; 6],
    replay: Option<Replay>,
    pacing: Pacing,
    pace: Pace,
    /// Timestamps count from here, where they decide.
    captured: Option<Ps>,
}

impl Player {
    /// As the load says, on a line of `line`, to `destination`; the trace comes by [`End::set_source`].
    pub fn new(play: Play, load: &Load, line: BitRate, destination: [u8; 6]) -> Self {
        let pacing = Pacing::new(load, line);
        Self { play, destination, replay: None, pacing, pace: Pace::Waits, captured: None }
    }

    /// The trace stays open.
    pub fn inherit(&mut self, old: Self) {
        self.replay = old.replay;
    }
}

impl End for Player {
    fn start(&mut self, t: Ps) {
        let own = matches!(self.play.clock, TraceClock::Captured { .. }) && self.pacing.is_open();
        self.captured = own.then_some(t);
        self.pace = if own { Pace::Waits } else { self.pacing.start(t) };
        if let Some(replay) = &mut self.replay {
            replay.start(self.play);
        }
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Ps> {
        let (at, flow) = self.replay.as_mut()?.next(&mut draft.bytes, self.destination)?;
        draft.as_it_is(flow);
        match self.captured {
            Some(start) => Some(start.saturating_add(at)),
            None => self.pace.next(draft.packet.length),
        }
    }
    fn turn(&mut self, draft: &mut Draft) -> Option<Ps> {
        self.pace.turn(draft)
    }
    fn sent(&mut self, draft: &Draft, t: Ps) {
        self.pace.sent(draft.packet.id, t);
    }
    fn answered(&mut self, id: u64, t: Ps) -> bool {
        self.pace.answered(id, t)
    }
    fn endless(&self) -> bool {
        self.pace.endless()
    }
    fn paced(&self) -> bool {
        self.pacing.is_open() && self.play.clock == TraceClock::Rate
    }
    fn set_source(&mut self, source: Box<dyn Source>) {
        self.replay = Some(Replay::new(source));
    }
    fn given_up(&self) -> u64 {
        self.pace.given_up()
    }
}
