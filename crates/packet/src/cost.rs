//! What a program costs on a core, as data: cycles of its work, the memory that it touches, its rules. Cycles are without
//! waiting for memory: that comes from the caches, where the accesses are simulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Duration, Invalid};

/// A program with its driver.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostModel {
    /// Name that `--model` takes.
    pub name: String,
    /// Where its figures come from.
    pub source: String,
    /// The register interface whose driver it has.
    pub interface: String,
    /// The platform whose core it was measured on; empty: written by hand, for any.
    pub platform: String,
    /// Cycles of its work.
    pub cycles: Costs,
    /// What it touches.
    pub touches: Touches,
    /// What it does when.
    pub policy: Policy,
    /// How it programs a QDMA, where that is its NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdma: Option<QdmaDriver>,
    /// How it drives a ConnectX, where that is its NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connectx: Option<ConnectxDriver>,
}

/// Cycles of a core, without waiting for memory.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A turn of the loop that finds nothing.
    #[schemars(range(min = 1.0, max = 1e6), extend("unit" = "cycles"))]
    pub empty_poll: f64,
    /// A turn that finds packets, beside what each of them costs; it falls on receiving, work and sending as a packet's cost does.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub turn: f64,
    /// A packet received, its buffer replaced.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub receive: f64,
    /// What the program does with a packet.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub work: f64,
    /// A line of payload that it looks at, beside the access.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub line: f64,
    /// A packet sent.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub send: f64,
    /// A buffer given back after it was sent.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub release: f64,
    /// A further buffer of a packet, both ways.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub segment: f64,
}

impl Costs {
    /// What of a turn's cost falls before work on packets, on it, and on sending them: as much as of a packet's.
    #[must_use]
    pub fn turn_by_part(&self) -> [f64; 3] {
        let whole = self.receive + self.work + self.send;
        if whole > 0.0 {
            [self.receive, self.work, self.send].map(|part| self.turn * part / whole)
        } else {
            [self.turn, 0.0, 0.0]
        }
    }
}

/// What of a packet's bytes a program looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Nothing.
    None,
    /// Its first line.
    Header,
    /// All of it.
    All,
}

/// Memory that a program touches for each packet, beside rings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Touches {
    /// How long work goes on behind a load that has not come: what the reorder buffer holds.
    #[schemars(range(min = 0, max = 10000), extend("unit" = "cycles"))]
    pub window: u32,
    /// Lines of a buffer's own record that are written on receiving.
    #[schemars(range(min = 0, max = 2), extend("unit" = "lines"))]
    pub received_lines: u32,
    /// The same, that are read to post a buffer.
    #[schemars(range(min = 0, max = 2), extend("unit" = "lines"))]
    pub posted_lines: u32,
    /// The same, that are read to give a buffer back.
    #[schemars(range(min = 0, max = 2), extend("unit" = "lines"))]
    pub released_lines: u32,
    /// Packets of a group: as work on one begins, first lines of the next are prefetched. 0: none are; 4096: as
    /// packets are received.
    #[schemars(range(min = 0, max = 4096), extend("unit" = "packets"))]
    pub prefetch_ahead: u32,
    /// What it looks at.
    pub payload: Payload,
    /// Whether it changes the first line.
    pub writes_header: bool,
}

/// What a program does with packets that its ring does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// Drops them.
    Drop,
    /// Tries again until they are sent.
    Wait,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Sends what it receives.
    Forward,
    /// Receives, and gives buffers back.
    Receive,
    /// Sends packets of its own, bursts without end.
    Send,
}

/// Which core has which queues, of each port as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Queues of the same number, of all ports, go to the same core, numbers in turn (l3fwd).
    Queues,
    /// Queues are handed out in turn, port after port (programs of ours).
    Pairs,
    /// First queues of all ports, then second ones: each core gets as many that follow each other (testpmd).
    Streams,
}

impl Spread {
    /// The core that has a port's queue, of so many ports and queues, among so many cores.
    #[must_use]
    pub fn core(self, (port, queue): (usize, usize), (ports, queues): (usize, usize), cores: usize) -> usize {
        match self {
            Self::Queues => queue % cores,
            Self::Pairs => (port * queues + queue) % cores,
            Self::Streams => {
                let (stream, cores) = (queue * ports + port, cores.min(ports * queues));
                let (each, more) = (ports * queues / cores, ports * queues % cores);
                // The last ones get one more.
                let few = (cores - more) * each;
                stream.checked_sub(few).map_or(stream / each, |behind| cores - more + behind / (each + 1))
            }
        }
    }
}

/// Rules of program and driver.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What the program is for.
    pub program: Mode,
    /// Which core has which queues.
    pub spread: Spread,
    /// Packets that the program asks for.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "packets"))]
    pub burst: u32,
    /// Packets that the driver gives at most.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "packets"))]
    pub receive_most: u32,
    /// Entries of the receive ring.
    #[schemars(range(min = 32, max = 32768), extend("unit" = "descriptors"))]
    pub receive_ring: u32,
    /// Entries of the transmit ring.
    #[schemars(range(min = 32, max = 32768), extend("unit" = "descriptors"))]
    pub transmit_ring: u32,
    /// Buffers are posted when so many can be.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "buffers"))]
    pub refill: u32,
    /// Sent buffers are taken back when fewer entries of the ring than this are free.
    #[schemars(range(min = 0, max = 32768), extend("unit" = "descriptors"))]
    pub release: u32,
    /// One descriptor in so many asks for a report, and so many buffers are taken back at a time.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "descriptors"))]
    pub report: u32,
    /// Packets that are gathered before they are sent; 0: each burst is sent by itself.
    #[schemars(range(min = 0, max = 4096), extend("unit" = "packets"))]
    pub gather: u32,
    /// A burst of so many is sent by itself where none are gathered.
    #[schemars(range(min = 0, max = 4096), extend("unit" = "packets"))]
    pub straight: u32,
    /// From one look for packets that have been gathered for too long to the next.
    pub drain: Duration,
    /// What happens with packets that the ring does not take.
    pub on_full: OnFull,
    /// Bytes of a buffer.
    #[schemars(range(min = 64, max = 16384), extend("unit" = "B"))]
    pub buffer: u32,
}

/// What a driver programs into a QDMA beside its rings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QdmaDriver {
    /// Bytes of a completion entry; 8, 16, 32 or 64.
    #[schemars(range(min = 8, max = 64), extend("unit" = "B"))]
    pub completion: u32,
    /// Descriptors that are fetched ahead for a queue to the host.
    #[schemars(range(min = 0, max = 63), extend("unit" = "descriptors"))]
    pub prefetch: u32,
    /// Most descriptors of a fetch; 8, 16, 32 or 64.
    #[schemars(range(min = 8, max = 64), extend("unit" = "descriptors"))]
    pub fetch: u32,
    /// Completions of the buffer that wait for others to share a line.
    #[schemars(range(min = 0, max = 63), extend("unit" = "entries"))]
    pub coalesce: u32,
    /// How long they do, in cycles of the user clock.
    #[schemars(range(min = 0, max = 4095), extend("unit" = "cycles"))]
    pub coalesce_cycles: u32,
    /// Completions at which software is told.
    #[schemars(range(min = 1, max = 255), extend("unit" = "entries"))]
    pub count: u32,
    /// The time after the first of them at which it is told anyway, in 50 cycles of the user clock.
    #[schemars(range(min = 1, max = 255), extend("unit" = "ticks"))]
    pub timer: u32,
}

impl QdmaDriver {
    fn check(&self) -> Result<(), Invalid> {
        for (name, value) in [("qdma.completion", self.completion), ("qdma.fetch", self.fetch)] {
            if !value.is_power_of_two() || !(8..=64).contains(&value) {
                return Err(Invalid::new(name, value, "must be 8, 16, 32 or 64"));
            }
        }
        for (name, value, least, most) in [
            ("qdma.prefetch", self.prefetch, 0, 63),
            ("qdma.coalesce", self.coalesce, 0, 63),
            ("qdma.coalesce_cycles", self.coalesce_cycles, 0, 4095),
            ("qdma.count", self.count, 1, 255),
            ("qdma.timer", self.timer, 1, 255),
        ] {
            within(name, value, least, most)?;
        }
        Ok(())
    }
}

/// What a driver makes of a ConnectX beside its rings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectxDriver {
    /// Bytes of a place for a completion; 64 or 128.
    #[schemars(range(min = 64, max = 128), extend("unit" = "B"))]
    pub completion: u32,
    /// Whether received packets' completions may share entries.
    pub compresses: bool,
    /// Completions that are looked at together.
    #[schemars(range(min = 1, max = 64), extend("unit" = "entries"))]
    pub looks: u32,
    /// A further call in a turn, whether it finds packets or not: what the driver has of a turn that finds nothing.
    #[schemars(range(min = 0.0, max = 1e6), extend("unit" = "cycles"))]
    pub further_call: f64,
    /// Most packets of a request to send.
    #[schemars(range(min = 1, max = 60), extend("unit" = "packets"))]
    pub packets: u32,
}

impl ConnectxDriver {
    fn check(&self) -> Result<(), Invalid> {
        if !matches!(self.completion, 64 | 128) {
            return Err(Invalid::new("connectx.completion", self.completion, "must be 64 or 128"));
        }
        within("connectx.looks", self.looks, 1, 64)?;
        within("connectx.packets", self.packets, 1, 60)
    }
}

fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), Invalid> {
    if !(least..=most).contains(&value) {
        return Err(Invalid::new(name, value, format!("must be from {least} to {most}")));
    }
    Ok(())
}

/// Packets ahead that stand for prefetching by the driver, whatever the program does.
pub const AT_RECEPTION: u32 = 4096;

impl CostModel {
    /// Whether packets are prefetched as they are received.
    #[must_use]
    pub fn prefetches_received(&self) -> bool {
        self.touches.prefetch_ahead == AT_RECEPTION
    }

    /// How it programs a QDMA.
    ///
    /// # Errors
    /// Where it says nothing of that.
    pub fn qdma_driver(&self) -> Result<&QdmaDriver, Invalid> {
        self.qdma.as_ref().ok_or_else(|| Invalid::new("interface", "qdma", "needs the table qdma"))
    }

    /// How it drives a ConnectX.
    ///
    /// # Errors
    /// Where it says nothing of that.
    pub fn connectx_driver(&self) -> Result<&ConnectxDriver, Invalid> {
        self.connectx.as_ref().ok_or_else(|| Invalid::new("interface", &self.interface, "needs the table connectx"))
    }

    /// Checks what types do not.
    ///
    /// # Errors
    /// The key, what was found, and what is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        let c = &self.cycles;
        for (name, value) in [
            ("turn", c.turn),
            ("receive", c.receive),
            ("work", c.work),
            ("line", c.line),
            ("send", c.send),
            ("release", c.release),
            ("segment", c.segment),
        ] {
            if !(0.0..=1e6).contains(&value) {
                return Err(Invalid::new(format!("cycles.{name}"), value, "must be from 0 to 1000000 cycles"));
            }
        }
        if !(1.0..=1e6).contains(&c.empty_poll) {
            return Err(Invalid::new("cycles.empty_poll", c.empty_poll, "must be from 1 to 1000000 cycles"));
        }
        let p = &self.policy;
        for (name, value, least, most) in [
            ("policy.burst", p.burst, 1, 4096),
            ("policy.receive_most", p.receive_most, 1, 4096),
            ("policy.receive_ring", p.receive_ring, 32, 32768),
            ("policy.transmit_ring", p.transmit_ring, 32, 32768),
            ("policy.refill", p.refill, 1, p.receive_ring / 2),
            ("policy.release", p.release, 0, 32768),
            ("policy.report", p.report, 1, p.transmit_ring / 2),
            ("policy.gather", p.gather, 0, 4096),
            ("policy.straight", p.straight, 0, 4096),
            ("policy.buffer", p.buffer, 64, 16384),
            ("touches.window", self.touches.window, 0, 10_000),
            ("touches.prefetch_ahead", self.touches.prefetch_ahead, 0, AT_RECEPTION),
            ("touches.received_lines", self.touches.received_lines, 0, 2),
            ("touches.posted_lines", self.touches.posted_lines, 0, 2),
            ("touches.released_lines", self.touches.released_lines, 0, 2),
        ] {
            within(name, value, least, most)?;
        }
        match self.interface.as_str() {
            "qdma" => drop(self.qdma_driver()?),
            "connectx-6dx" => drop(self.connectx_driver()?),
            _ => {}
        }
        self.qdma.iter().try_for_each(QdmaDriver::check)?;
        self.connectx.iter().try_for_each(ConnectxDriver::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By core: which of two ports' three queues it has.
    fn spread(how: Spread, cores: usize) -> Vec<Vec<(usize, usize)>> {
        let mut found = vec![Vec::new(); cores];
        for (port, queue) in (0..2).flat_map(|port| (0..3).map(move |queue| (port, queue))) {
            found[how.core((port, queue), (2, 3), cores)].push((port, queue));
        }
        found
    }

    #[test]
    fn queues_are_handed_out_as_each_program_does() {
        assert_eq!(spread(Spread::Queues, 2), [vec![(0, 0), (0, 2), (1, 0), (1, 2)], vec![(0, 1), (1, 1)]]);
        assert_eq!(spread(Spread::Pairs, 2), [[(0, 0), (0, 2), (1, 1)], [(0, 1), (1, 0), (1, 2)]]);
        assert_eq!(spread(Spread::Streams, 2), [[(0, 0), (0, 1), (1, 0)], [(0, 2), (1, 1), (1, 2)]]);
        assert_eq!(
            spread(Spread::Streams, 4),
            [vec![(0, 0)], vec![(1, 0)], vec![(0, 1), (1, 1)], vec![(0, 2), (1, 2)]]
        );
        assert_eq!(spread(Spread::Streams, 8)[..6], [[(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)], [(0, 2)], [(1, 2)]]);
    }
}
