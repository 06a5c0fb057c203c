use super::*;
use crate::testing::{dram_grades, platform};

const LOAD: Requester = Requester::Core { core: 0, access: CoreAccess::Load };

fn dram(change: impl FnOnce(&mut params::Dram)) -> Dram {
    let mut p = platform().dram;
    change(&mut p);
    Dram::new(&p)
}

/// Lines from a place to another row of the same bank.
fn row_step(p: &params::Dram) -> u64 {
    u64::from(p.ranks * p.banks) * p.row_size.bytes() / 64 * u64::from(p.banks / p.bank_groups)
}

fn read(d: &mut Dram, line: u64, t: Ps) -> Ps {
    d.read(line, t, LOAD) - t
}

/// A time right after a refresh of the first rank, far from the next.
fn quiet(d: &Dram) -> Ps {
    10 * d.p.t_refi.ps() + d.p.t_rfc.ps()
}

#[test]
fn idle_latencies_follow_the_formula_in_every_grade() {
    for mut p in dram_grades() {
        p.channels = 1;
        let mut d = Dram::new(&p);
        let (t, line) = (quiet(&d), 0);
        let same_row = u64::from(p.bank_groups);
        let other_row = row_step(&p);
        assert_eq!(d.place(line).bank, d.place(other_row).bank);
        assert_ne!(d.place(line).row, d.place(other_row).row);
        let base = p.controller_latency.ps() + p.t_cl.ps() + d.p.burst();
        assert_eq!(read(&mut d, line, t), base + p.t_rcd.ps(), "a closed bank");
        assert_eq!(read(&mut d, same_row, t + Ps::from_ns(500)), base, "an open row");
        assert_eq!(read(&mut d, other_row, t + Ps::from_us(1)), base + p.t_rp.ps() + p.t_rcd.ps(), "another row");
        let again = read(&mut d, line, t + Ps(1_000_001));
        assert!(again >= base + p.t_ras.ps(), "and back: not before tRAS");
    }
}

#[test]
fn refresh_stops_a_rank() {
    let mut d = dram(|p| p.channels = 1);
    let p = d.p.clone();
    let t = 10 * p.t_refi.ps();
    let base = p.controller_latency.ps() + p.t_cl.ps() + d.p.burst() + p.t_rcd.ps();
    assert_eq!(read(&mut d, 0, t), base + p.t_rfc.ps() - p.controller_latency.ps() / 2);
}

#[test]
fn refresh_of_a_bank_stops_no_other() {
    let mut p = platform().dram;
    (p.refresh, p.channels, p.ranks) = (Refresh::Bank, 1, 1);
    let mut d = Dram::new(&p);
    // The first bank's turn comes when an interval begins.
    let t = p.t_refi.ps() * 20;
    let of = |d: &Dram, bank: usize| (0..).find(|&line| d.place(line).bank == bank).expect("a line");
    let opened = p.t_rcd.ps();
    let (first, other) = (of(&d, 0), of(&d, p.banks as usize / 2));
    let (first, other) = (d.place(first), d.place(other));
    assert_eq!(d.schedule(other, t, Command::Read), t + opened);
    assert!(d.schedule(first, t, Command::Read) >= t + p.t_rfc.ps() + opened);
}

#[test]
fn streams_reach_the_peak_less_refresh() {
    for (mut p, channels) in dram_grades().into_iter().flat_map(|p| [1, 2, 8].map(|n| (p.clone(), n))) {
        p.channels = channels;
        let mut d = Dram::new(&p);
        let peak = f64::from(p.transfer_rate) * 1e6 * f64::from(p.bus_width) * f64::from(channels);
        let n = 50_000u64;
        let begin = quiet(&d);
        // Requests come somewhat faster than the bus takes them, as from many cores.
        let gap = |l: u64| l * d.p.burst() * 9 / 10 / u64::from(channels);
        let arrivals: Vec<Ps> = (0..n).map(|l| begin + gap(l)).collect();
        let end = arrivals.iter().enumerate().map(|(l, &t)| d.read(l as u64, t, LOAD)).max().unwrap();
        let took = (end - begin).as_f64();
        let efficiency = (n * 512) as f64 * 1e12 / took / peak;
        let refresh = 1.0 - d.p.t_rfc.ps().as_f64() / d.p.t_refi.ps().as_f64();
        let rate = p.transfer_rate;
        assert!(efficiency < 1.0 && efficiency > 0.9 * refresh, "{rate} MT/s, {channels}: {efficiency:.3}");
    }
}

#[test]
fn random_rows_of_one_bank_take_the_row_cycle() {
    let mut d = dram(|p| p.channels = 1);
    let p = d.p.clone();
    let step = row_step(&p);
    let n = 1000u64;
    let begin = quiet(&d);
    let end = (0..n).map(|k| d.read(k * step, begin, LOAD)).max().unwrap();
    let cycle = (end - begin).as_f64() / n as f64;
    let formula = (p.t_ras.ps() + p.t_rp.ps()).as_f64();
    let ratio = cycle / formula;
    assert!((0.95..1.15).contains(&ratio), "{cycle} ps a row against {formula}");
}

/// One of each relation to bank 0 of group 0 of rank 0.
fn other(near: Near) -> (u16, u16, u16) {
    match near {
        Near::Bank => (0, 0, 0),
        Near::Group => (0, 0, 1),
        Near::Rank => (0, 1, 4),
        Near::Channel => (1, 4, 16),
    }
}

fn booked(command: Command, time: Ps, (rank, group, bank): (u16, u16, u16)) -> Booked {
    Booked { time, command, rank, group, bank }
}

#[test]
fn between_banks_a_command_is_legal_at_its_time_and_not_a_clock_before() {
    use Command::{Activate, Read, Write};
    for p in dram_grades() {
        let t = Timing::new(&p);
        let (booking, clock) = (Ps::from_us(1), Ps(2_000_000 / u64::from(p.transfer_rate)));
        for near in [Near::Group, Near::Rank, Near::Channel] {
            for (from, to) in [(Read, Read), (Read, Write), (Write, Read), (Write, Write)] {
                let after = t.after(from, to, near);
                assert!(after >= p.burst() || to == Read, "{from:?} {to:?} {near:?}");
                let mut list = Commands::new(4, 64);
                list.insert(booked(from, booking, (0, 0, 0)), &t);
                let at = |time| list.first_column(booked(to, time, other(near)), &t);
                let back = t.after(to, from, near);
                // A read of another rank may come while a write waits to send its data: before it is then as good.
                if after >= clock {
                    assert_eq!(at(booking + after - clock), booking + after, "{from:?} {to:?} {near:?}");
                }
                assert_eq!(at(booking + after), booking + after);
                // Seen from the other side: no later than so long before what is booked.
                if back > Ps::ZERO {
                    assert_eq!(at(booking - back), booking - back, "{to:?} before {from:?}, {near:?}");
                    assert!(at(booking - back + Ps(1)) >= booking + after);
                }
            }
        }
        for near in [Near::Group, Near::Rank] {
            let after = t.after(Activate, Activate, near);
            let mut list = Commands::new(4, 64);
            list.insert(booked(Activate, booking, (0, 0, 0)), &t);
            let at = |time| list.first_activate(booked(Activate, time, other(near)), &t);
            assert_eq!((at(booking + after - clock), at(booking + after)), (booking + after, booking + after));
        }
        // The fifth row of a rank waits for the window, the fourth does not.
        let rrd = t.after(Activate, Activate, Near::Rank);
        let mut list = Commands::new(4, 64);
        for n in 0..4 {
            let new = booked(Activate, booking + n * rrd, (0, n as u16, 4 * n as u16));
            assert_eq!(list.first_activate(new, &t), new.time);
            list.insert(new, &t);
        }
        let fifth = booking + (4 * rrd).max(t.four_activates);
        for from in [fifth - clock, fifth] {
            assert_eq!(list.first_activate(booked(Activate, from, (0, 4, 16)), &t), fifth);
        }
    }
}

/// What of JEDEC's list concerns one bank, and refresh: each by what a second access to it sees.
#[test]
fn in_a_bank_a_command_is_legal_at_its_time_and_not_a_clock_before() {
    for mut p in dram_grades() {
        (p.channels, p.ranks) = (1, 1);
        let clock = 2_000_000 / u64::from(p.transfer_rate);
        let (row, column) = (row_step(&p), u64::from(p.bank_groups));
        // The first access opens a row at `t`; when does the second, of `line` at `t + after`, come?
        let second = |first: Command, line: u64, command: Command, after: Ps| {
            let mut d = Dram::new(&p);
            let t = quiet(&d);
            let place = |line| d.place(line);
            let (one, two) = (place(0), place(line));
            let begun = d.schedule(one, t, first);
            assert_eq!(begun, t + p.t_rcd.ps(), "tRCD");
            d.schedule(two, t + after, command) - t
        };
        let (read, write) = (Command::Read, Command::Write);
        let reopened = p.t_rp.ps() + p.t_rcd.ps();
        // Reads and writes of the open row.
        for (command, ccd) in [(read, p.t_ccd_l), (write, p.t_ccd_l_wr)] {
            let next = p.t_rcd.ps() + ccd.ps().max(p.burst());
            for after in [next - Ps(clock), next] {
                assert_eq!(second(command, column, command, after), next, "tCCD_L, tCCD_L_WR");
            }
        }
        // Another row: after tRAS and tRTP, or tWR.
        let closes = p.t_ras.ps().max(p.t_rcd.ps() + p.t_rtp.ps());
        for after in [closes - Ps(clock), closes] {
            assert_eq!(second(read, row, read, after), closes + reopened, "tRAS, tRTP, tRP");
        }
        let closes = p.t_ras.ps().max(p.t_rcd.ps() + p.t_cwl.ps() + p.burst() + p.t_wr.ps());
        for after in [closes - Ps(clock), closes] {
            assert_eq!(second(write, row, read, after), closes + reopened, "tCWL, tWR");
        }
        // Refresh.
        let mut d = Dram::new(&p);
        let (refresh, place) = (10 * p.t_refi.ps(), d.place(0));
        let usable = refresh + p.t_rfc.ps();
        assert_eq!(d.schedule(place, usable - Ps(clock), read), usable + p.t_rcd.ps(), "tRFC");
        let mut d = Dram::new(&p);
        assert_eq!(d.schedule(place, usable, read), usable + p.t_rcd.ps());
        // A row is closed before the refresh: what comes too late for that waits, and opens its row right behind it.
        let took = p.t_ras.ps().max(p.t_rcd.ps() + p.t_rtp.ps()) + p.t_rp.ps();
        let mut d = Dram::new(&p);
        assert_eq!(d.schedule(place, refresh - took, read), refresh - took + p.t_rcd.ps(), "tRP before a refresh");
        let mut d = Dram::new(&p);
        assert_eq!(d.schedule(place, refresh - took + Ps(clock), read), usable + p.t_rcd.ps());
    }
}

/// A read that is entered late comes behind a write that was booked for later: the write's recovery holds all the same.
#[test]
fn a_row_is_closed_once_all_that_use_it_allow() {
    for mut p in dram_grades() {
        (p.channels, p.ranks) = (1, 1);
        let mut d = Dram::new(&p);
        let (t, other, column) = (quiet(&d), row_step(&p), u64::from(p.bank_groups));
        let places = [0, column, 2 * column, other].map(|line| d.place(line));
        d.schedule(places[0], t, Command::Read);
        let written = d.schedule(places[1], t + Ps::from_ns(200), Command::Write);
        let behind = d.schedule(places[2], t + Ps(199_999), Command::Read);
        assert!(behind > written);
        let closed = written + p.t_cwl.ps() + p.burst() + p.t_wr.ps();
        let reopened = d.schedule(places[3], behind + Ps(1), Command::Read);
        assert!(reopened >= closed + p.t_rp.ps() + p.t_rcd.ps(), "tWR");
    }
}

/// gem5's RoRaBaCoCh: 128 lines of a row of 8 KiB follow each other in one bank, channel by channel.
#[test]
fn a_contiguous_row_stays_in_its_bank() {
    let d = dram(|p| (p.channels, p.ranks, p.interleave, p.mapping) = (4, 2, 64, Mapping::RowContiguous));
    let row = d.p.row_size.bytes() / 64;
    let (first, last) = (d.place(0), d.place(4 * (row - 1)));
    assert_eq!((first, d.place(1).channel, d.place(5).channel), (last, 1, 1));
    assert_eq!((d.place(4 * row).group, d.place(4 * row).row), (1, first.row), "then the next group's");
    let all = u64::from(d.p.banks * d.p.ranks);
    assert_eq!((d.place(4 * row * all / 2).rank, d.place(4 * row * all).row), (1, first.row + 1));
    let mut seen: Vec<_> = (0..4 * row * all * 2).map(|l| d.place(l)).map(|p| (p.channel, p.bank, p.row)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, 4 * all * 2, "no two rows in one place");
}

#[test]
fn a_waiting_write_answers_reads_and_takes_further_writes() {
    let mut d = dram(|p| (p.channels, p.write_queue_entries) = (1, 32));
    let t = quiet(&d);
    let closed = read(&mut d, 4, t);
    for line in 0..31 {
        d.write(line, t + Ps::from_us(1), None);
    }
    d.write(7, t + Ps::from_ns(1100), None);
    assert_eq!((d.stats.writes_merged, d.stats.write_drains), (1, 0));
    assert_eq!(read(&mut d, 4, t + Ps::from_ns(1200)), d.p.controller_latency.ps(), "the queue has it");
    assert_eq!(
        read(&mut d, 4, t + Ps::from_ns(900)),
        closed - d.p.t_rcd.ps(),
        "before it was written the queue had not"
    );
    assert_eq!(d.stats.reads_forwarded, 1);
    assert_eq!(read(&mut d, 40, t + Ps::from_ns(1300)), closed - d.p.t_rcd.ps(), "gathered writes do not disturb");
}

/// A row is open for an access ahead, and another row of its bank is wanted before: it is opened again in time.
#[test]
fn a_row_that_is_closed_under_a_later_access_is_opened_again() {
    let mut d = dram(|p| (p.channels, p.ranks) = (1, 1));
    let (t, row, column) = (quiet(&d), row_step(&d.p), u64::from(d.p.bank_groups));
    read(&mut d, 0, t);
    let ahead = read(&mut d, column, t + Ps::from_us(2));
    let other = read(&mut d, row, t + Ps::from_us(1));
    assert_eq!(other, ahead + d.p.t_rp.ps() + d.p.t_rcd.ps(), "as if nothing came later");
    assert_eq!((d.stats.row_hits, d.stats.row_misses, d.stats.rows_reopened), (1, 2, 1));
    // Until then the bank is as if it were not.
    assert_eq!(read(&mut d, 2 * column, t + Ps::from_ns(1500)), other);
    assert_eq!(d.stats.rows_reopened, 1, "the later access finds that row open now");
    // Right before it there is no time to: it comes behind.
    let mut d = dram(|p| (p.channels, p.ranks) = (1, 1));
    read(&mut d, 0, t);
    read(&mut d, column, t + Ps::from_us(2));
    assert!(read(&mut d, row, t + Ps::from_ns(1990)) > other + Ps::from_ns(10));
    assert_eq!(d.stats.rows_reopened, 0);
}

/// A row is open for as long as its policy says: then the next access opens its own, of whatever row, without waiting
/// for another to be closed.
#[test]
fn a_row_stays_open_for_as_long_as_is_said() {
    let after = |policy: PagePolicy, row: u64, pause: u64| {
        let mut d = dram(|p| {
            (p.channels, p.ranks, p.page_policy) = (1, 1, policy);
            p.page_timeout = "300ns".parse().expect("a duration");
        });
        let (t, p) = (quiet(&d), d.p.clone());
        let column = d.schedule(d.place(0), t, Command::Read);
        let again = d.place(row * row_step(&p) + u64::from(p.bank_groups));
        let at = column + Ps::from_ns(pause);
        (d.schedule(again, at, Command::Read) - at, p)
    };
    let (open, p) = after(PagePolicy::Open, 0, 900);
    let (opened, reopened) = (p.t_rcd.ps(), p.t_rp.ps() + p.t_rcd.ps());
    assert_eq!((open, after(PagePolicy::Open, 1, 900).0), (Ps::ZERO, reopened));
    assert_eq!((after(PagePolicy::Closed, 0, 100).0, after(PagePolicy::Closed, 1, 100).0), (opened, opened));
    let timed = |row, pause| after(PagePolicy::Timed, row, pause).0;
    assert_eq!((timed(0, 300), timed(1, 300)), (Ps::ZERO, reopened), "still open");
    assert_eq!((timed(0, 400), timed(1, 400)), (opened, opened), "closed");
    assert_eq!(timed(0, 301), reopened - Ps::from_ns(1), "being closed");
}

/// A write that is entered late fills the queue at an earlier time: what was sent later by then is sent earlier.
#[test]
fn a_queue_that_was_full_before_is_sent_before_and_once() {
    let mut d = dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 1, 4));
    let t = quiet(&d);
    for (line, at) in [(0, 0), (40, 10), (80, 20), (120, 2_000_000)] {
        d.write(line, t + Ps(at), None);
    }
    let columns = |d: &Dram| d.channels[0].columns.all().map(|c| c.time).collect::<Vec<_>>();
    assert!(columns(&d).len() == 4 && columns(&d)[0] > t + Ps::from_us(2));
    d.write(160, t + Ps::from_us(1), None);
    assert_eq!((d.stats.write_drains, d.stats.writes_moved), (2, 3));
    let (earlier, later): (Vec<Ps>, Vec<Ps>) = columns(&d).iter().partition(|&&c| c < t + Ps::from_us(2));
    assert_eq!((earlier.len(), later.len()), (4, 1), "each once");
    assert_eq!(d.channels[0].banks.iter().map(|b| b.all().count()).sum::<usize>(), 5);
    assert_eq!(d.stats.row_hits + d.stats.row_misses, 5, "each once here, too");
}

#[test]
fn while_one_bank_is_written_others_are_read() {
    let n = 32;
    let mut d = dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 1, n));
    let (t, step) = (quiet(&d), row_step(&d.p));
    // Rows of one bank, one after the other.
    for row in 0..u64::from(n) {
        assert_eq!(d.place(row * step).bank, d.place(0).bank);
        d.write(row * step, t, None);
    }
    assert_eq!((d.stats.write_drains, d.stats.writes_moved), (1, 0));
    let cycle = d.p.t_rcd.ps() + d.p.t_cwl.ps() + d.p.burst() + d.p.t_wr.ps() + d.p.t_rp.ps();
    let p = d.p.clone();
    let idle = p.controller_latency.ps() + p.t_rcd.ps() + p.t_cl.ps() + p.burst();
    // Another group's bank waits for the bus to turn at most; the written bank for all of its rows.
    let turns = p.t_cwl.ps() + p.burst() + p.t_wtr_l.ps() + p.t_rtw.ps() + p.t_cl.ps();
    let aside = read(&mut d, 1, t + cycle);
    assert!(aside <= idle + turns, "{aside:?} against {idle:?}");
    let same = read(&mut d, u64::from(n + 1) * step, t + cycle);
    assert!(same > u64::from(n - 2) * cycle, "{same:?} for {n} rows of {cycle:?}");
    // What waits to be written is answered without the bank until it is.
    let last = u64::from(n - 1) * step;
    assert_eq!((read(&mut d, last, t + cycle), d.stats.reads_forwarded), (p.controller_latency.ps(), 1));
    read(&mut d, last, t + u64::from(2 * n) * cycle);
    assert_eq!(d.stats.reads_forwarded, 1);
}

use proptest::prelude::*;

const POLICIES: [PagePolicy; 3] = [PagePolicy::Open, PagePolicy::Closed, PagePolicy::Timed];

/// Line, time and whether it is written.
type Access = (u64, Ps, bool);

fn play(d: &mut Dram, (line, t, write): Access) -> Ps {
    if write {
        d.write(line, t, None);
        return Ps::ZERO;
    }
    d.read(line, t, LOAD)
}

/// All commands of a channel but precharges.
fn commands(d: &Dram) -> Vec<Booked> {
    let c = &d.channels[0];
    let all = c.activations.iter().chain(std::iter::once(&c.columns));
    all.flat_map(|list| list.all().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// In whatever order they are entered, no two commands are nearer than the standard allows, checked pair by pair; every
    /// access finds its row open; every write is booked once.
    #[test]
    fn every_pair_of_commands_is_legal(
        mut accesses in prop::collection::vec((0u64..4096, 0u64..3_000_000, any::<bool>()), 1..200),
        grade in 0usize..4,
        policy in 0usize..3,
        sorted in any::<bool>(),
    ) {
        let mut p = dram_grades().remove(grade);
        (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8);
        p.page_policy = POLICIES[policy];
        let mut d = Dram::new(&p);
        if sorted {
            accesses.sort_unstable_by_key(|a| a.1);
        }
        let from = quiet(&d);
        for &(line, t, write) in &accesses {
            play(&mut d, (line * 37, from + Ps(t), write));
        }
        let entered = accesses.iter().filter(|a| a.2).count() as u64;
        let c = &d.channels[0];
        let written = c.columns.all().filter(|c| c.command == Command::Write).count() as u64;
        prop_assert_eq!(written + c.writes.left() as u64 + d.stats.writes_merged, entered);
        let uses: Vec<Use> = c.banks.iter().flat_map(|bank| bank.all().copied()).collect();
        prop_assert_eq!(uses.len(), c.columns.all().count());
        prop_assert_eq!(uses.iter().filter(|u| u.opens).count(), c.activations.iter().map(|a| a.all().count()).sum::<usize>());
        for bank in &c.banks {
            let uses: Vec<&Use> = bank.all().collect();
            for pair in uses.windows(2) {
                let (one, two) = (pair[0], pair[1]);
                prop_assert!(one.begin <= two.begin && one.begin <= one.opened.max(one.column));
                if two.opens {
                    prop_assert!(one.epoch != two.epoch || one.leaves_room_for(two, d.closes()), "{one:?} {two:?}");
                } else {
                    prop_assert_eq!((one.row, one.opened, one.epoch), (two.row, two.opened, two.epoch));
                    prop_assert!(one.precharge <= two.precharge);
                }
                prop_assert!(one.column >= one.opened + p.t_rcd.ps());
            }
        }
        let mut all = commands(&d);
        all.sort_by_key(|c| c.time);
        let mut rows = vec![Vec::new(); p.ranks as usize];
        for (i, one) in all.iter().enumerate() {
            for two in &all[i + 1..] {
                let near = if one.bank == two.bank { Near::Bank } else if one.group == two.group { Near::Group }
                    else if one.rank == two.rank { Near::Rank } else { Near::Channel };
                if near == Near::Channel && (one.command == Command::Activate || two.command == Command::Activate) {
                    continue;
                }
                let after = |from, to| d.timing.after(from, to, near);
                // A row is closed first.
                let closing = near == Near::Bank && one.command != Command::Activate && two.command == Command::Activate;
                let closing = if closing { after(one.command, Command::Precharge) + d.closes() } else { Ps::ZERO };
                let allowed = one.time + after(one.command, two.command).max(closing);
                // A refresh in between closes rows: what its banks did before it does not matter.
                let unit = usize::from(if p.refresh == Refresh::Rank { one.rank } else { one.bank });
                let together = p.refresh == Refresh::Rank || near == Near::Bank;
                let refreshed = together && d.refreshed(unit, one.time).0 != d.refreshed(unit, two.time).0;
                prop_assert!(two.time >= allowed || refreshed, "{one:?} {two:?}");
            }
            if one.command == Command::Activate {
                rows[usize::from(one.rank)].push(one.time);
            }
        }
        for times in rows {
            for five in times.windows(5) {
                prop_assert!(five[4] - five[0] >= d.timing.four_activates);
            }
        }
    }

    /// Whatever is entered for later, what is over before gets the same.
    #[test]
    fn what_is_booked_ahead_never_delays_what_is_earlier(
        earlier in prop::collection::vec((0u64..2048, 0u64..2_000_000, any::<bool>()), 1..100),
        later in prop::collection::vec((0u64..2048, 0u64..40_000_000, any::<bool>()), 1..100),
        policy in 0usize..3,
    ) {
        let make = || dram(|p| {
            (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8);
            p.page_policy = POLICIES[policy];
        });
        let (mut alone, mut mixed) = (make(), make());
        let begin = quiet(&alone);
        let ends: Vec<Ps> = earlier.iter().map(|&(l, t, w)| play(&mut alone, (l * 5, begin + Ps(t), w))).collect();
        // Drains go on after the last read.
        let over = commands(&alone).iter().map(|c| c.time).max().unwrap_or(Ps::ZERO).max(begin + Ps::from_us(2)) + Ps::from_ns(200);
        for (i, &(line, t, write)) in later.iter().enumerate() {
            play(&mut mixed, (line * 5, over + Ps(t), write));
            if let Some(&(l, t, w)) = earlier.get(i) {
                prop_assert_eq!(play(&mut mixed, (l * 5, begin + Ps(t), w)), ends[i]);
            }
        }
    }

    /// Forgetting what nobody can reach changes nothing.
    #[test]
    fn forgetting_changes_nothing(
        mut accesses in prop::collection::vec((0u64..2048, 0u64..20_000_000, any::<bool>()), 1..300),
    ) {
        accesses.sort_unstable_by_key(|a| a.1 / 300_000);
        let make = || dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8));
        let (mut all, mut some) = (make(), make());
        for (line, t, write) in accesses {
            some.reached(Ps(t / 300_000 * 300_000));
            prop_assert_eq!(play(&mut some, (line * 5, Ps(t), write)), play(&mut all, (line * 5, Ps(t), write)));
        }
    }
}
