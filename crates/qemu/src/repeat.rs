//! Loops that repeat: a program that polls and finds nothing does the same again until somebody writes what it reads. Where all
//! that decides what it does is back where it was, turns of the loop are one step of the machine instead of executed.
//!
//! A block is taken for the head of a loop, another one where it does not come back soon (after Brent's search for cycles). When
//! it comes back and nothing has disturbed the core in between, the state is noted: registers, the lines that the loop
//! writes, where the core stands. When that is found again, the way between has been a turn: what it reads beside is in the
//! core's own cache all the time, and anybody who writes it takes it from there, which disturbs. From then on, whenever the
//! head comes back undisturbed, turns are taken at once: up to the end of the window, or, where all other cores sleep, up to
//! where a device, a timer or the experiment acts. Each window executes the rest of a turn, so that the guest is always in a
//! state that it would have been in.
//!
//! Nothing of a result depends on it (`--every-turn` does without; tests compare). Left out: loops that read the counter or
//! system registers, use exclusives, or wait with hints; cores that jump together.

use crate::engine::{Engine, Guest};
use crate::internals;
use crate::translate::Block;
use crate::turns::{self, Vcpu};
use std::ptr;
use wiretime_base::Ps;
use wiretime_hw::core::{MemEvent, MemKind};
use wiretime_hw::machine::{Stand, Turn};
use wiretime_hw::memory::LINE;
use wiretime_isa::Isa;

/// Blocks in which a head comes back, or another one is taken: at first, and at most.
const NEAR: u32 = 16;
const FAR: u32 = 1024;
/// Visits of the head that a turn may have.
const VISITS: u32 = 64;
/// States noted before it is given up: predictors learn for some turns.
const MARKS: u32 = 100;
/// Of these, where a loop has repeated before, so many one after the other.
const SOON: u32 = 12;
/// Visits let go by after a search in vain, at first and at most.
const PAUSE: u32 = 16;
const LONG_PAUSE: u32 = 1 << 14;
/// Searches that may be cut short one after the other before visits are let go by, and how many these grow to, as a power of
/// two.
const PATIENCE: u32 = 8;
const LONGEST: u32 = 9;
/// How far one jump goes.
const FARTHEST: Ps = Ps::from_us(10_000);
/// Most lines that a turn may use.
const LINES: usize = 128;
/// Places for lines that are known to have been noted, by their number: nearly all of a loop's.
const RECENT: usize = 64;
const NOTHING: (u64, bool) = (u64::MAX, false);

/// What is known of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    #[default]
    Unknown,
    /// One way from head to head was undisturbed; what the next one writes is noted.
    Noting,
    /// The state at the head is noted.
    Marked,
    /// It repeats.
    Repeats,
}

/// The state at a head.
struct Mark {
    registers: Vec<u64>,
    vectors: bool,
    memory: Vec<[u8; LINE as usize]>,
    stand: Stand,
}

/// The loop that a vCPU may be in.
pub struct Repeat {
    head: *const Block,
    blocks: u32,
    reach: u32,
    phase: Phase,
    /// Whether every block since the head was steady, and whether one used vectors.
    steady: bool,
    vectors: bool,
    disturbances: u64,
    visits: u32,
    /// Visits before another state is noted, states noted, and visits in a turn.
    most: u32,
    marks: u32,
    period: u32,
    failures: u32,
    vain: u32,
    pause: u32,
    /// The register that differed last.
    differed: usize,
    mark: Option<Mark>,
    turn: Option<Box<Turn>>,
    /// Lines written, and all that were used; since the mark: whether there was a new one, what is polled, what the hash of
    /// executed code takes in, and instructions.
    written: Vec<u64>,
    used: Vec<u64>,
    /// Of these, the last one in each place, and whether it was written.
    recent: [(u64, bool); RECENT],
    grew: bool,
    polled: Vec<u64>,
    trail: Vec<u64>,
    instructions: u64,
}

impl Default for Repeat {
    fn default() -> Self {
        Self {
            head: ptr::null(),
            blocks: 0,
            reach: NEAR,
            phase: Phase::Unknown,
            steady: false,
            vectors: false,
            disturbances: 0,
            visits: 0,
            most: 1,
            marks: 0,
            period: 1,
            failures: 0,
            vain: 0,
            pause: 0,
            differed: 0,
            mark: None,
            turn: None,
            written: Vec::new(),
            used: Vec::new(),
            recent: [NOTHING; RECENT],
            grew: false,
            polled: Vec::new(),
            trail: Vec::new(),
            instructions: 0,
        }
    }
}

impl Repeat {
    /// Something else has happened: what was known holds no longer.
    pub fn lose(&mut self) {
        self.phase = Phase::Unknown;
        self.steady = false;
    }

    /// Blocks have gone.
    pub fn forget(&mut self) {
        self.lose();
        self.head = ptr::null();
    }

    fn take_head(&mut self, block: &Block) {
        self.head = block;
        self.lose();
        self.blocks = 0;
        (self.failures, self.pause) = (0, 0);
    }

    /// What is executed on the way is noted.
    #[inline]
    fn notes(&self) -> bool {
        matches!(self.phase, Phase::Noting | Phase::Marked)
    }

    /// Notes what was timed of a block.
    #[inline]
    pub fn note(&mut self, word: u64, count: u64, accesses: &[MemEvent], polled: impl Fn(&MemEvent) -> bool) {
        if !self.notes() {
            return;
        }
        self.trail.push(word);
        self.instructions += count;
        for a in accesses {
            self.uses(a.paddr / LINE, a.kind == MemKind::Store);
            if a.kind == MemKind::Load && polled(a) {
                self.polled.push(a.paddr);
            }
        }
        if self.used.len() > LINES {
            self.phase = Phase::Unknown;
        }
    }

    #[inline]
    fn uses(&mut self, line: u64, writes: bool) {
        let recent = &mut self.recent[line as usize % RECENT];
        let known = (line, writes || *recent == (line, true));
        if *recent == known {
            return;
        }
        *recent = known;
        for lines in [Some(&mut self.used), writes.then_some(&mut self.written)].into_iter().flatten() {
            if !lines.contains(&line) {
                lines.push(line);
                self.grew = true;
            }
        }
    }

    /// A search has come to nothing because something happened: where that goes on, time between searches grows.
    fn cut_short(&mut self) {
        self.vain += 1;
        if self.vain > PATIENCE {
            self.pause = 1 << (self.vain - PATIENCE).min(LONGEST);
        }
    }

    /// In vain: some time passes before the next search.
    fn fail(&mut self) {
        self.phase = Phase::Unknown;
        self.pause = (PAUSE << self.failures.min(10)).min(LONG_PAUSE);
        self.failures += 1;
    }

    fn start_afresh(&mut self) {
        self.phase = Phase::Noting;
        self.written.clear();
        self.used.clear();
        self.recent.fill(NOTHING);
        self.start_noting();
    }

    fn start_noting(&mut self) {
        self.polled.clear();
        self.trail.clear();
        self.instructions = 0;
        self.grew = false;
        self.visits = 0;
    }
}

/// vCPU `index` is about to execute `block`, at its own time.
#[inline]
pub fn at_block(e: &mut Engine, index: usize, block: &Block) {
    let r = &mut e.vcpus[index].repeat;
    if ptr::eq(r.head, block) {
        visit(e, index, block);
    } else if block.repeats.get() {
        r.take_head(block);
    } else {
        r.blocks += 1;
        if r.blocks >= r.reach {
            r.reach = (r.reach * 2).min(FAR);
            r.take_head(block);
        }
    }
    let r = &mut e.vcpus[index].repeat;
    r.steady &= block.steady;
    r.vectors |= block.vectors;
}

/// The head comes back.
fn visit(e: &mut Engine, index: usize, block: &Block) {
    let disturbances = e.run.machine.disturbances(index);
    let v = &mut e.vcpus[index];
    let r = &mut v.repeat;
    let undisturbed = r.steady && disturbances == r.disturbances && v.local == v.timed_local;
    r.disturbances = disturbances;
    r.blocks = 0;
    if !undisturbed {
        if r.phase == Phase::Marked {
            r.cut_short();
        }
        // Where it has repeated before it may be about to do so again.
        r.phase = Phase::Unknown;
        (r.steady, r.vectors) = (true, false);
        if block.repeats.get() && r.pause == 0 {
            r.start_afresh();
        }
        return;
    }
    if r.pause > 0 {
        r.pause -= 1;
        return;
    }
    r.visits += 1;
    match r.phase {
        Phase::Unknown => r.start_afresh(),
        Phase::Noting => {
            (r.most, r.marks) = (1, 0);
            mark(e, index);
        }
        Phase::Marked => compare(e, index, block),
        Phase::Repeats => {
            if r.visits >= r.period {
                r.visits = 0;
                go_on(e, index);
            }
        }
    }
}

/// Notes the state at the head.
fn mark(e: &mut Engine, index: usize) {
    let vectors = e.vcpus[index].repeat.vectors;
    let registers = e.state(vectors);
    let r = &mut e.vcpus[index].repeat;
    let (Some(registers), Some(memory)) = (registers, e.run.lines(&r.written)) else {
        r.fail();
        return;
    };
    e.run.machine.watch(index, &r.used);
    r.mark = Some(Mark { registers, vectors, memory, stand: e.run.machine.stand(index) });
    r.phase = Phase::Marked;
    r.start_noting();
}

/// Whether the state that is noted is there again: then it was a turn.
fn find(e: &mut Engine, index: usize, then: &Mark) -> Option<Box<Turn>> {
    let differed = e.vcpus[index].repeat.differed;
    if e.state_at(differed) != then.registers.get(differed).copied() {
        return None;
    }
    let stand = e.run.machine.stand(index);
    if !stand.is_like(&then.stand) || e.run.lines(&e.vcpus[index].repeat.written).as_ref() != Some(&then.memory) {
        return None;
    }
    let registers = e.state(then.vectors)?;
    if let Some(at) = then.registers.iter().zip(&registers).position(|(a, b)| a != b) {
        e.vcpus[index].repeat.differed = at;
        return None;
    }
    Some(Box::new(stand.turn_since(&then.stand)))
}

/// The head comes back while a state is noted.
fn compare(e: &mut Engine, index: usize, block: &Block) {
    let r = &mut e.vcpus[index].repeat;
    let Some(then) = r.mark.take() else { return };
    let whole = !r.grew && r.vectors == then.vectors;
    let found = if whole { find(e, index, &then) } else { None };
    let r = &mut e.vcpus[index].repeat;
    match found {
        Some(turn) => {
            (r.phase, r.turn) = (Phase::Repeats, Some(turn));
            (r.period, r.visits, r.failures, r.vain) = (r.visits, 0, 0, 0);
            block.repeats.set(true);
            go_on(e, index);
        }
        None if whole && r.visits < r.most => r.mark = Some(then),
        None => {
            // Of a loop that has repeated each state is noted at first: most have turns of one visit, and stand again soon.
            if whole && !(block.repeats.get() && r.marks < SOON) {
                r.most *= 2;
            }
            r.marks += 1;
            if r.marks > MARKS || r.most > VISITS {
                r.fail();
            } else {
                mark(e, index);
            }
        }
    }
}

/// Takes as many turns as nobody can notice.
fn go_on(e: &mut Engine, index: usize) {
    let until = quiet_until(e, index).min(e.run.machine.next_write_of(index).saturating_add(Ps(1)));
    let v = &mut e.vcpus[index];
    let r = &mut v.repeat;
    let Some(turn) = &r.turn else { return };
    let count = e.run.machine.turns_before(index, until, turn);
    if count == 0 {
        return;
    }
    e.run.repeat(index, (turn, count), &r.polled, (&r.trail, r.instructions));
    r.disturbances = e.run.machine.disturbances(index);
    v.local = e.run.machine.cores[index].now();
    v.timed_local = v.local;
    let local = v.local;
    if local >= e.turns.window_end {
        turns::go_to_window_of(e, local);
    }
}

/// Before what time nobody but vCPU `index` acts, at the earliest the end of the window.
fn quiet_until(e: &mut Engine, index: usize) -> Ps {
    let (t, now) = (&e.turns, e.turns.window_end);
    let decided = e.run.experiment.quiet_until();
    // SAFETY: a query on live vCPUs.
    let alone =
        || e.vcpus.iter().enumerate().all(|(i, v)| i == index || unsafe { internals::cpu_thread_is_idle(v.cpu) });
    if decided <= now || !alone() || e.run.next_irq().is_some() {
        return now;
    }
    let far = now.saturating_add(FARTHEST);
    // What is written for a core that sleeps is there when its window opens.
    let device = e.run.machine.quiet_until().min(e.run.machine.next_write()).min(far);
    let timer = crate::clock::next_timer().unwrap_or(far);
    // Devices act when the window opens that their event is in, all others in the first that begins behind it.
    (device - device % t.quantum).min(t.grid_after(timer.min(decided).min(far))).max(now)
}

impl Engine {
    /// All that a program has in registers; none where QEMU does not show it.
    fn state(&mut self, vectors: bool) -> Option<Vec<u64>> {
        let mut words = Vec::with_capacity(if vectors { 256 } else { 40 });
        let handles = self.state.iter().chain(self.vectors.iter().filter(|_| vectors));
        if self.state.len() != Guest::STATE.len() || vectors && self.vectors.is_empty() {
            return None;
        }
        for &handle in handles {
            crate::engine::read_words(handle, self.register_buffer, &mut words);
        }
        Some(words)
    }

    /// A word of that.
    fn state_at(&mut self, at: usize) -> Option<u64> {
        let mut words = Vec::new();
        if at >= self.state.len() {
            return self.state(true)?.get(at).copied();
        }
        crate::engine::read_words(*self.state.get(at)?, self.register_buffer, &mut words);
        words.first().copied()
    }
}

/// Blocks go: no vCPU's loop has a head any more.
pub fn forget_all(vcpus: &mut [Vcpu]) {
    vcpus.iter_mut().for_each(|v| v.repeat.forget());
}
