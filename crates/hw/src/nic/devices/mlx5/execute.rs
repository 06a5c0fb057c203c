//! What commands do. What is not known succeeds with an answer of zeros where it only tells or makes something without a
//! data path (queue pairs of the driver's tests, shared receive queues), as drivers expect of devices that have it.
//!
//! Left out: who owns what (user contexts may use each other's objects), references that keep an object alive.

use super::caps;
use super::compress::{Session, Tells};
use super::events::own;
use super::fields::{double, get, half, number, place, put, word};
use super::objects::{work_ring, Cq, Eq, Kind, Mkey, Pages, Ring, Rq, Sq, State, Tir};
use super::opcodes as op;
use super::registers::{BROADCAST, MULTICAST, UNICAST};
use super::steering::{Counted, Refused};
use super::{Due, Mlx5, VECTORS};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::requester::Moves;
use wiretime_base::Ps;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    BadParameter = 3,
    BadState = 9,
    BadIndex = 0xa,
    NoResources = 0xf,
}

impl From<Refused> for Status {
    fn from(why: Refused) -> Self {
        match why {
            Refused::BadIndex => Self::BadIndex,
            Refused::BadParameter => Self::BadParameter,
            Refused::NoResources => Self::NoResources,
        }
    }
}

/// Keys that stand for themselves.
const DUMP_FILL_KEY: u32 = 1;
const RESERVED_KEY: u32 = 2;
const NULL_KEY: u32 = 3;
pub const END_KEY: u32 = 4;

/// Of MODIFY_RQ: whether it strips VLAN tags, whether it keeps the FCS, or its set of counters changes, too.
const STRIPS: u64 = 1 << 1;
const KEEPS_FCS: u64 = 1 << 2;
const COUNTER_SET: u64 = 1 << 3;
/// Longest queues, as logarithms: of completions and events.
const LOG_LONGEST: u32 = 22;

fn part(input: &[u8], from: usize) -> &[u8] {
    input.get(from..).unwrap_or_default()
}

/// The number in a command that is about an object.
fn of_object(input: &[u8]) -> u32 {
    number(input, 8)
}

fn made(number: Option<u32>, output: &mut [u8]) -> Status {
    match number {
        Some(number) => {
            place(output, 8, &number.to_be_bytes());
            Status::Ok
        }
        None => Status::NoResources,
    }
}

fn gone<T>(object: Option<T>) -> Status {
    if object.is_some() {
        Status::Ok
    } else {
        Status::BadIndex
    }
}

/// Answers with the state of a queue, where its context has it.
fn told(state: Option<State>, output: &mut [u8]) -> Status {
    state.map_or(Status::BadIndex, |state| {
        place(output, 0x21, &[state.number() << 4]);
        Status::Ok
    })
}

fn done(result: Result<(), Refused>) -> Status {
    result.map_or_else(Status::from, |()| Status::Ok)
}

impl Mlx5 {
    /// Does a command.
    pub(super) fn execute<G: GuestMemory>(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        io: &mut Io<'_, Due, G>,
    ) -> Status {
        let opcode = half(input, 0);
        let queues = match opcode {
            op::CREATE_EQ | op::DESTROY_EQ => Some(self.eq(opcode, input, output)),
            op::CREATE_CQ | op::DESTROY_CQ | op::MODIFY_CQ => Some(self.cq(opcode, input, output)),
            op::QUERY_SQ => Some(told(self.objects.sqs.get(of_object(input)).map(|sq| sq.state), output)),
            op::QUERY_RQ => Some(told(self.objects.rqs.get(of_object(input)).map(|rq| rq.state), output)),
            op::CREATE_SQ | op::DESTROY_SQ | op::MODIFY_SQ => Some(self.sq(opcode, input, output, io)),
            op::CREATE_RQ | op::DESTROY_RQ | op::MODIFY_RQ => Some(self.rq(opcode, input, output, io)),
            _ => None,
        };
        queues
            .or_else(|| self.device_command(opcode, input, output))
            .or_else(|| self.port_command(opcode, input, output))
            .or_else(|| self.memory_command(opcode, input, output))
            .or_else(|| self.receiver_command(opcode, input, output))
            .or_else(|| self.steering_command(opcode, input, output))
            .unwrap_or_else(|| self.plain_command(opcode, input, output))
    }

    /// What the device is and can.
    fn device_command(&self, opcode: u16, input: &[u8], output: &mut [u8]) -> Option<Status> {
        match opcode {
            op::QUERY_HCA_CAP => {
                let what = half(input, 6) >> 1;
                let body = caps::body(what);
                let count = body.len().min(output.len() - 16);
                output[16..16 + count].copy_from_slice(&body[..count]);
                if what == 0 {
                    put(part_mut(output, 16), (608, 1, self.blue_flame.into()));
                }
            }
            op::QUERY_ISSI => put(output, (864, 32, 2)),
            op::QUERY_ADAPTER => {
                put(output, (328, 24, 0x0002c9));
                place(output, 0x100, b"WIRETIME0001");
            }
            op::QUERY_SPECIAL_CONTEXTS => {
                for (at, key) in [(8, DUMP_FILL_KEY), (12, RESERVED_KEY), (16, NULL_KEY), (20, END_KEY)] {
                    place(output, at, &key.to_be_bytes());
                }
            }
            _ => return None,
        }
        Some(Status::Ok)
    }

    /// The port, its address, its counters.
    fn port_command(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Option<Status> {
        match opcode {
            op::ACCESS_REG => {
                let (id, body) = (half(input, 10), part(input, 16));
                self.port.access(id, half(input, 6) == 0, body, part_mut(output, 16));
            }
            op::QUERY_VPORT_STATE => place(output, 0xf, &[0x11]),
            op::QUERY_NIC_VPORT_CONTEXT => self.vport(input, part_mut(output, 16)),
            op::MODIFY_NIC_VPORT_CONTEXT => {
                if word(input, 12) & 1 << 6 != 0 {
                    self.vport_mtu = half(input, 0x100 + 0x26);
                }
            }
            op::QUERY_VPORT_COUNTER => {
                let c = &self.port.counters;
                for (at, class) in [(0x70, BROADCAST), (0x90, UNICAST), (0xb0, MULTICAST)] {
                    let values = [c.taken.of(class), c.sent.of(class)];
                    for (i, value) in values.as_flattened().iter().enumerate() {
                        place(output, at + 8 * i, &value.to_be_bytes());
                    }
                }
            }
            op::QUERY_VNIC_ENV => place(output, 0x10 + 0x10, &self.steered_nowhere.to_be_bytes()),
            op::QUERY_Q_COUNTER => {
                let counter = word(input, 0x1c) & 0xff;
                let lost = self.out_of_buffer.get(&counter).copied().unwrap_or(0) as u32;
                place(output, 0x30, &lost.to_be_bytes());
                if input.get(0x18).is_some_and(|b| b & 0x80 != 0) {
                    self.out_of_buffer.remove(&counter);
                }
            }
            _ => return None,
        }
        Some(Status::Ok)
    }

    /// What the device may reach of the host's memory.
    fn memory_command(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Option<Status> {
        Some(match opcode {
            op::CREATE_UMEM => {
                let c = part(input, 0x10);
                let pages = Pages::new(12 + get(c, 155, 5) as u32, word(c, 0x14).into(), part(c, 0x20));
                if !self.objects.affords(pages.count()) {
                    return Some(Status::NoResources);
                }
                made(self.objects.umems.add(pages), output)
            }
            op::DESTROY_UMEM => {
                let pages = self.objects.umems.remove(of_object(input));
                self.objects.gives_back(pages.as_ref().map_or(0, Pages::count));
                gone(pages)
            }
            op::CREATE_MKEY => {
                let key = Mkey::of(part(input, 0x10), part(input, 0x110));
                if !self.objects.affords(key.entries()) {
                    return Some(Status::NoResources);
                }
                made(self.objects.keys.add(key), output)
            }
            op::DESTROY_MKEY => {
                let key = self.objects.keys.remove(of_object(input));
                self.objects.gives_back(key.as_ref().map_or(0, Mkey::entries));
                gone(key)
            }
            _ => return None,
        })
    }

    /// Which queue a packet goes to once it has been steered.
    fn receiver_command(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Option<Status> {
        let o = &mut self.objects;
        Some(match opcode {
            op::CREATE_TIR if !o.affords(Tir::ENTRIES) => Status::NoResources,
            op::CREATE_TIR => made(o.tirs.add(Tir::of(part(input, 0x20))), output),
            op::MODIFY_TIR => {
                let Some(tir) = o.tirs.get_mut(of_object(input)) else { return Some(Status::BadIndex) };
                tir.modify(double(input, 0x10), part(input, 0x20));
                Status::Ok
            }
            op::DESTROY_TIR => {
                let tir = o.tirs.remove(of_object(input));
                o.gives_back(tir.as_ref().map_or(0, |_| Tir::ENTRIES));
                gone(tir)
            }
            op::CREATE_RQT => {
                let table = receivers(input);
                if o.affords(table.len()) {
                    made(o.tables.add(table), output)
                } else {
                    Status::NoResources
                }
            }
            op::MODIFY_RQT => {
                let table = receivers(input);
                let Some(had) = o.tables.get(of_object(input)).map(Vec::len) else { return Some(Status::BadIndex) };
                if !o.affords(table.len()) {
                    return Some(Status::NoResources);
                }
                o.gives_back(had);
                o.tables.get_mut(of_object(input)).map_or(Status::BadIndex, |t| {
                    *t = table;
                    Status::Ok
                })
            }
            op::DESTROY_RQT => {
                let table = o.tables.remove(of_object(input));
                o.gives_back(table.as_ref().map_or(0, Vec::len));
                gone(table)
            }
            _ => return None,
        })
    }

    fn steering_command(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Option<Status> {
        let s = &mut self.steering;
        Some(match opcode {
            op::SET_FLOW_TABLE_ROOT => {
                s.set_root(input);
                Status::Ok
            }
            op::CREATE_FLOW_TABLE => s.create(input).map_or_else(Status::from, |number| made(Some(number), output)),
            op::CREATE_FLOW_GROUP => {
                s.create_group(input).map_or_else(Status::from, |number| made(Some(number), output))
            }
            op::MODIFY_FLOW_TABLE => done(s.modify(input)),
            op::DESTROY_FLOW_TABLE => done(s.destroy(input)),
            op::DESTROY_FLOW_GROUP => done(s.destroy_group(input)),
            op::SET_FLOW_TABLE_ENTRY => done(s.set_entry(input)),
            op::DELETE_FLOW_TABLE_ENTRY => done(s.delete_entry(input)),
            // One at a time, and read by the command's own answer: no more is offered.
            op::ALLOC_FLOW_COUNTER if word(input, 12) & 0x1fff != 0 => Status::BadParameter,
            op::ALLOC_FLOW_COUNTER => made(s.counters.add(Counted::default()), output),
            op::DEALLOC_FLOW_COUNTER => gone(s.counters.remove(of_object(input))),
            op::QUERY_FLOW_COUNTER if word(input, 0x18) & 1 << 30 != 0 => Status::BadParameter,
            op::QUERY_FLOW_COUNTER => {
                let (what, first) = (word(input, 0x18), word(input, 0x1c));
                let count = (what & 0x3fff_ffff).max(1) as usize;
                let room = part_mut(output, 16);
                let end = room.len().min(count.saturating_mul(16));
                s.read_counters(first, what >> 31 != 0, &mut room[..end]);
                Status::Ok
            }
            _ => return None,
        })
    }

    /// What is made or given back by number alone, and what only has to succeed.
    fn plain_command(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Status {
        if let Some((_, first)) = op::PLAIN.iter().find(|(make, _)| *make == opcode) {
            return made(self.objects.plain(opcode, *first), output);
        }
        if let Some((_, make)) = op::PLAIN_GONE.iter().find(|(gone, _)| *gone == opcode) {
            let number = of_object(input);
            if *make == op::ALLOC_Q_COUNTER {
                self.out_of_buffer.remove(&number);
            }
            return gone(self.objects.plain.get_mut(make).and_then(|all| all.remove(number)));
        }
        Status::Ok
    }

    fn vport(&self, input: &[u8], c: &mut [u8]) {
        place(c, 0x26, &self.vport_mtu.to_be_bytes());
        place(c, 0xf6, &self.mac);
        let [a, b, d, e, f, g] = self.mac;
        for at in [0x28, 0x30, 0x38] {
            place(c, at, &[a, b, d, 3, 0, e, f, g]);
        }
        // Lists of addresses are the driver's own.
        if number(input, 12) & 7 == 0 {
            put(c, (1940, 12, 0));
        }
    }

    fn eq(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Status {
        if opcode == op::DESTROY_EQ {
            let number = of_object(input) & 0xff;
            if self.objects.command_eq == Some(number) {
                self.objects.command_eq = None;
            }
            let eq = self.objects.eqs.remove(number);
            self.objects.gives_back(eq.as_ref().map_or(0, |eq| eq.ring.pages.count()));
            return gone(eq);
        }
        let c = part(input, 0x10);
        let log = get(c, 99, 5) as u32;
        let vector = get(c, 180, 12) as u16;
        if log > LOG_LONGEST || vector >= VECTORS {
            return Status::BadParameter;
        }
        let pages = Pages::new(12 + get(c, 195, 5) as u32, 0, part(input, 0x110));
        if !self.objects.affords(pages.count()) {
            return Status::NoResources;
        }
        let mask = double(input, 0x58);
        let eq = Eq { ring: Ring { pages, log, stride: 6, record: 0 }, vector, mask, ..Eq::default() };
        let number = self.objects.eqs.add(eq);
        if mask >> super::events::COMMAND_EVENT & 1 != 0 {
            self.objects.command_eq = number;
        }
        made(number, output)
    }

    fn cq(&mut self, opcode: u16, input: &[u8], output: &mut [u8]) -> Status {
        let moderation = |cq: &mut Cq, c: &[u8]| {
            (cq.period, cq.count) = (Ps::from_us(u64::from(half(c, 0x10) & 0xfff)), half(c, 0x12));
            cq.restarts = get(c, 15, 2) == 1;
        };
        let c = part(input, 0x10);
        match opcode {
            op::DESTROY_CQ => {
                let cq = self.objects.cqs.remove(of_object(input));
                self.objects.gives_back(cq.as_ref().map_or(0, |cq| cq.ring.pages.count()));
                gone(cq)
            }
            // Another ring: not offered.
            op::MODIFY_CQ if half(input, 6) != 0 => Status::BadParameter,
            op::MODIFY_CQ => match self.objects.cqs.get_mut(of_object(input)) {
                Some(cq) => {
                    let select = word(input, 12);
                    let (period, count, restarts) = (cq.period, cq.count, cq.restarts);
                    moderation(cq, c);
                    cq.period = if select & 1 != 0 { cq.period } else { period };
                    cq.count = if select & 2 != 0 { cq.count } else { count };
                    cq.restarts = if select & 0x10 != 0 { cq.restarts } else { restarts };
                    Status::Ok
                }
                None => Status::BadIndex,
            },
            _ => {
                let (log, wide) = (get(c, 99, 5) as u32, get(c, 8, 3) != 0);
                if log > LOG_LONGEST {
                    return Status::BadParameter;
                }
                let pages = if input.get(0x5c).is_some_and(|b| b & 0x80 != 0) {
                    let Some(umem) = self.objects.umems.get(word(input, 0x58)) else { return Status::BadIndex };
                    umem.from(double(input, 0x50))
                } else {
                    Pages::of_ring(get(c, 195, 5) as u32, get(c, 84, 6), part(input, 0x110))
                };
                let mut record = double(c, 0x38);
                if get(c, 6, 1) != 0 {
                    let at = self.objects.umems.get(word(c, 4)).and_then(|umem| umem.at(record));
                    let Some(at) = at else { return Status::BadIndex };
                    record = at;
                }
                if !self.objects.affords(pages.count()) {
                    return Status::NoResources;
                }
                let ring = Ring { pages, log, stride: 6 + u32::from(wide), record };
                // Of the basic layout.
                let compressed = get(c, 17, 1) != 0 && get(c, 30, 2) == 0;
                let tells = Tells::of(get(c, 18, 2)).filter(|_| compressed && log > 3);
                let session = tells.map(|tells| Box::new(Session::new(tells, own(Moves::Completions))));
                let mut cq = Cq { ring, eq: word(c, 0x14) & 0xff, session, ..Cq::default() };
                moderation(&mut cq, c);
                made(self.objects.cqs.add(cq), output)
            }
        }
    }

    fn sq<G: GuestMemory>(&mut self, opcode: u16, input: &[u8], output: &mut [u8], io: &mut Io<'_, Due, G>) -> Status {
        let (c, number) = (part(input, 0x20), of_object(input));
        match opcode {
            op::DESTROY_SQ => {
                self.sending.retain(|&n| n != number);
                let sq = self.objects.sqs.remove(number);
                self.objects.gives_back(sq.as_ref().map_or(0, |sq| sq.ring.pages.count()));
                if let Some(queue) = sq.as_ref().and_then(|sq| sq.lane) {
                    self.lanes[1][usize::from(queue)] = None;
                    io.note(Notice::Stopped { queue });
                }
                gone(sq)
            }
            op::MODIFY_SQ => {
                let epoch = self.next_epoch();
                let Some(sq) = self.objects.sqs.get_mut(number) else { return Status::BadIndex };
                let Some(state) = sq.state.then(c) else { return Status::BadState };
                sq.state = state;
                match state {
                    State::Ready => {}
                    State::Error => {
                        // What is outstanding completes, given up.
                        self.fetch_work(number, io);
                        self.ask_payload(io);
                    }
                    State::Reset => {
                        *sq = Sq {
                            state,
                            ring: std::mem::take(&mut sq.ring),
                            cq: sq.cq,
                            user: sq.user,
                            user_index: sq.user_index,
                            lane: sq.lane,
                            transport: sq.transport,
                            epoch,
                            ..Sq::default()
                        };
                        self.sending.retain(|&n| n != number);
                        if let Some(queue) = sq.lane {
                            io.note(Notice::Stopped { queue });
                        }
                    }
                }
                Status::Ok
            }
            _ => {
                let list = part(input, 0x110);
                let Some(ring) = work_ring(part(c, 0x30), list, &self.objects.umems, 6) else {
                    return Status::BadParameter;
                };
                if !self.objects.affords(ring.pages.count()) {
                    return Status::NoResources;
                }
                let epoch = self.next_epoch();
                // What has no transport to the wire sends no packets.
                let (cq, transport) = (super::fields::number(c, 8), get(c, 360, 24) != 0);
                let user = half(input, 2) != 0 && transport;
                let user_index = super::fields::number(c, 4);
                let sq = Sq { ring, cq, user, user_index, transport, epoch, ..Sq::default() };
                made(self.objects.sqs.add(sq), output)
            }
        }
    }

    fn rq<G: GuestMemory>(&mut self, opcode: u16, input: &[u8], output: &mut [u8], io: &mut Io<'_, Due, G>) -> Status {
        let (c, number) = (part(input, 0x20), of_object(input));
        match opcode {
            op::DESTROY_RQ => {
                let rq = self.objects.rqs.remove(number);
                self.objects.gives_back(rq.as_ref().map_or(0, |rq| rq.ring.pages.count()));
                if let Some(lane) = rq.as_ref().and_then(|rq| rq.lane) {
                    self.lanes[0][usize::from(lane)] = None;
                }
                self.receive_later(io);
                gone(rq)
            }
            op::MODIFY_RQ => {
                let epoch = self.next_epoch();
                let Some(rq) = self.objects.rqs.get_mut(number) else { return Status::BadIndex };
                let (before, Some(state)) = (rq.state, rq.state.then(c)) else { return Status::BadState };
                rq.state = state;
                let mask = double(input, 0x10);
                if mask & STRIPS != 0 {
                    rq.strips = get(c, 3, 1) == 0;
                }
                if mask & KEEPS_FCS != 0 {
                    rq.keeps_fcs = get(c, 2, 1) != 0;
                }
                if mask & COUNTER_SET != 0 {
                    rq.counter = get(c, 96, 8) as u32;
                }
                match rq.state {
                    State::Ready => {
                        if before == State::Reset {
                            self.tells_from_here(number, &mut io.effects);
                        }
                        self.look_for_requests(number, io);
                    }
                    State::Error => {
                        // Its record may tell of more than is known.
                        rq.looked = false;
                        self.flush_requests(number, io);
                        self.receive_later(io);
                    }
                    State::Reset => {
                        *rq = Rq {
                            state,
                            kind: rq.kind,
                            ring: std::mem::take(&mut rq.ring),
                            cq: rq.cq,
                            counter: rq.counter,
                            user: rq.user,
                            user_index: rq.user_index,
                            lane: rq.lane,
                            strips: rq.strips,
                            keeps_fcs: rq.keeps_fcs,
                            epoch,
                            ..Rq::default()
                        };
                        self.receive_later(io);
                    }
                }
                Status::Ok
            }
            _ => {
                let wq = part(c, 0x30);
                let log = get(wq, 268, 4) as u32;
                let Some(ring) = work_ring(wq, part(input, 0x110), &self.objects.umems, log) else {
                    return Status::BadParameter;
                };
                let kind = match get(wq, 0, 4) {
                    0 => Kind::Linked,
                    1 => Kind::Cyclic,
                    n => {
                        // Logarithms: of strides beyond nine, as a number of four bits with sign; of bytes beyond six.
                        let strides = (get(wq, 308, 4) as i32) << 28 >> 28;
                        let (strides, stride) = ((9 + strides).max(0) as u32, 6 + get(wq, 317, 3) as u32);
                        let shift = if get(wq, 312, 1) != 0 { 2 } else { 0 };
                        Kind::Striding { linked: n == 2, strides: 1 << strides, stride: 1 << stride, shift }
                    }
                };
                if get(c, 4, 4) != 0 || log < 4 {
                    return Status::BadParameter; // shared queues of requests
                }
                if !self.objects.affords(ring.pages.count()) {
                    return Status::NoResources;
                }
                let counter = get(c, 96, 8) as u32;
                let epoch = self.next_epoch();
                let (cq, user) = (super::fields::number(c, 8), half(input, 2) != 0);
                // What is said is that tags stay, and that the FCS does.
                let (strips, keeps_fcs) = (get(c, 3, 1) == 0, get(c, 2, 1) != 0);
                let user_index = super::fields::number(c, 4);
                let rq = Rq { kind, ring, cq, counter, user, user_index, epoch, strips, keeps_fcs, ..Rq::default() };
                made(self.objects.rqs.add(rq), output)
            }
        }
    }
}

fn part_mut(bytes: &mut [u8], from: usize) -> &mut [u8] {
    bytes.get_mut(from..).unwrap_or_default()
}

/// Queues of a table, as a command lists them.
fn receivers(input: &[u8]) -> Vec<u32> {
    let c = part(input, 0x20);
    let count = usize::from(half(c, 0x1a)).min(1 << 11);
    part(c, 0xf0).chunks_exact(4).take(count.max(1)).map(|entry| number(entry, 0)).collect()
}
