//! A trace that is played: by its own timestamps, or as the load is paced.

use super::super::load::Load;
use super::super::replay::{Play, Replay, Source, TraceClock};
use super::{Draft, End, Wish};
use wiretime_base::Ps;

/// See the module.
pub struct Player {
    play: Play,
    destination: [u8; 6],
    replay: Option<Replay>,
    /// Its own timestamps decide, from here on.
    own: bool,
    start: Ps,
}

impl Player {
    /// As the load says, to `destination`; the trace comes by [`End::set_source`].
    pub fn new(play: Play, load: &Load, destination: [u8; 6]) -> Self {
        let own = matches!(play.clock, TraceClock::Captured { .. }) && load.clients.is_none();
        Self { play, destination, replay: None, own, start: Ps::ZERO }
    }

    /// The trace stays open.
    pub fn inherit(&mut self, old: Self) {
        self.replay = old.replay;
    }
}

impl End for Player {
    fn start(&mut self, t: Ps) {
        self.start = t;
        if let Some(replay) = &mut self.replay {
            replay.start(self.play);
        }
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Wish> {
        let (at, flow) = self.replay.as_mut()?.next(&mut draft.bytes, self.destination)?;
        draft.as_it_is(flow);
        Some(if self.own { Wish::At(self.start.saturating_add(at)) } else { Wish::Paced(draft.packet.length) })
    }
    fn set_source(&mut self, source: Box<dyn Source>) {
        self.replay = Some(Replay::new(source));
    }
}
