//! What a connection does when its owner, the other end or a stranger does something.

use std::time::Duration;

use smoltcp::wire::TcpControl;

use super::world::{Path, World};
use crate::tcp::{Failure, Phase};

const SECOND: Duration = Duration::from_secs(1);

fn open(says: [u64; 2]) -> World {
    let mut world = World::new(Path::default(), says, 1380);
    for host in &mut world.hosts {
        host.finishes = false;
    }
    let opened = world.run(SECOND, |world| world.phases() == [Phase::Open; 2]);
    assert!(opened);
    world
}

#[test]
fn each_direction_ends_by_itself() {
    let mut world = open([1000, 5_000_000]);
    world.hosts[0].finishes = true;
    assert!(world.run(SECOND, |world| world.hosts[1].ended));
    assert!(!world.hosts[0].ended && world.hosts[1].read == 1000);
    // The other goes on for as long as it likes.
    assert!(world.run(10 * SECOND, |world| world.hosts[0].read == 5_000_000));
    world.hosts[1].finishes = true;
    assert!(world.run(20 * SECOND, World::is_complete));
    assert_eq!(world.hosts[0].connection.phase(), Phase::Lingering, "who ended first lingers");
    assert!(world.run(60 * SECOND, |world| world.phases() == [Phase::Closed; 2]));
    assert!(world.hosts.iter().all(|host| host.connection.failure().is_none()));
}

#[test]
fn what_was_written_before_the_owner_left_still_arrives() {
    let mut world = open([300_000, 0]);
    assert!(world.run(SECOND, |world| world.hosts[0].written == 300_000));
    let now = world.now;
    world.hosts[0].connection.abandon(now);
    assert!(world.run(10 * SECOND, |world| world.hosts[1].ended && world.hosts[1].read == 300_000));
    world.hosts[1].finishes = true;
    assert!(world.run(60 * SECOND, |world| world.phases() == [Phase::Closed; 2]));
    assert_eq!(world.hosts[1].connection.failure(), None);
}

#[test]
fn who_talks_to_an_owner_that_left_is_reset() {
    let mut world = open([0, 10_000_000]);
    let now = world.now;
    world.hosts[0].reads = 0;
    world.hosts[0].connection.abandon(now);
    assert!(world.run(SECOND, |world| world.hosts[1].connection.failure() == Some(Failure::Reset)));
}

#[test]
fn nothing_is_lost_on_a_slow_reader_and_its_window_opens_again() {
    let mut world = open([3_000_000, 0]);
    world.hosts[1].reads = 0;
    let full = |world: &World| world.hosts[0].connection.timers_of_shut_window();
    assert!(world.run(60 * SECOND, full), "{:?}", world.hosts[0].written);
    let held = world.hosts[1].connection.inbox.len();
    assert!(held <= 4 << 20, "{held}");
    world.hosts[1].reads = u64::MAX;
    world.hosts[0].finishes = true;
    world.hosts[1].finishes = true;
    assert!(world.run(120 * SECOND, World::is_complete));
}

#[test]
fn a_silent_other_end_is_noticed() {
    let mut world = open([0, 0]);
    world.cut = true;
    assert!(world.run(180 * SECOND, |world| world.phases() == [Phase::Closed; 2]));
    assert!(world.hosts.iter().all(|host| host.connection.failure() == Some(Failure::TimedOut)));
    let mut world = open([0, 0]);
    assert!(!world.run(600 * SECOND, |world| world.phases() != [Phase::Open; 2]), "who answers is kept");
}

#[test]
fn silence_may_have_a_limit_of_its_own() {
    let limit = 3 * SECOND;
    for says in [0, 1000] {
        let mut world = open([0, 0]);
        let now = world.now;
        world.hosts[0].connection.limit_silence(limit, now);
        assert!(!world.run(60 * SECOND, |world| world.phases() != [Phase::Open; 2]), "who answers is kept");
        world.cut = true;
        world.hosts[0].says = says;
        let cut_at = world.elapsed();
        let is_given_up = |world: &World| world.hosts[0].connection.failure() == Some(Failure::TimedOut);
        assert!(!world.run(cut_at + limit / 2, is_given_up), "not too soon");
        assert!(world.run(cut_at + limit, is_given_up));
    }
    // Packets that are lost now and then are no silence.
    let mut world = open([0, 0]);
    world.path.loss = 10_000;
    let now = world.now;
    world.hosts[0].connection.limit_silence(limit, now);
    assert!(!world.run(600 * SECOND, |world| world.phases() != [Phase::Open; 2]));
    assert!(world.lost > 0);
}

#[test]
fn what_nobody_acknowledges_is_given_up() {
    let mut world = open([1000, 0]);
    world.cut = true;
    assert!(world.run(200 * SECOND, |world| world.hosts[0].connection.failure() == Some(Failure::TimedOut)));
    assert!(world.elapsed() > 60 * SECOND, "not too soon: {:?}", world.elapsed());
}

#[test]
fn a_path_that_comes_back_is_used_soon() {
    let mut world = open([50_000_000, 0]);
    world.hosts[0].finishes = true;
    world.hosts[1].finishes = true;
    world.run(SECOND / 10, |_| false);
    world.cut = true;
    world.run(41 * SECOND, |_| false);
    let (cut_at, read) = (world.elapsed(), world.hosts[1].read);
    world.cut = false;
    assert!(world.run(60 * SECOND, |world| world.hosts[1].read > read));
    assert!(world.since(cut_at) < 9 * SECOND, "{:?}", world.since(cut_at));
    assert!(world.run(100 * SECOND, World::is_complete));
}

#[test]
fn a_path_that_is_said_to_be_back_is_used_at_once() {
    let mut world = open([50_000_000, 0]);
    world.run(SECOND / 10, |_| false);
    world.cut = true;
    world.run(30 * SECOND, |_| false);
    let (cut_at, read) = (world.elapsed(), world.hosts[1].read);
    world.cut = false;
    let now = world.now;
    assert!(world.hosts[0].connection.nudge(now) && !world.hosts[1].connection.nudge(now));
    assert!(world.run(60 * SECOND, |world| world.hosts[1].read > read));
    assert!(world.since(cut_at) < SECOND / 10, "{:?}", world.since(cut_at));
}

#[test]
fn a_syn_that_nobody_answers_is_given_up() {
    let mut world = World::new(Path::default(), [0, 0], 1380);
    world.cut = true;
    assert!(world.run(60 * SECOND, |world| world.phases() == [Phase::Closed; 2]));
    assert!(world.elapsed() > 10 * SECOND);
}

#[test]
fn forged_segments_do_no_harm() {
    let mut world = open([0, 0]);
    let now = world.now;
    for control in [TcpControl::Rst, TcpControl::Syn, TcpControl::Fin] {
        for ahead in [-100_000, -1, 1, 1000, 60_000, 1 << 30] {
            let forged = world.forge(control, 1, ahead);
            world.hosts[1].connection.take(&forged, now);
            assert_eq!(world.hosts[1].connection.phase(), Phase::Open, "{control:?} {ahead}");
        }
    }
    let exact = world.forge(TcpControl::Rst, 1, 0);
    world.hosts[1].connection.take(&exact, now);
    assert_eq!(world.hosts[1].connection.failure(), Some(Failure::Reset));
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let mut world = open([0, 0]);
    let now = world.now;
    for ahead in [1, 1000, 1 << 20, -5, -(1 << 20)] {
        let mut forged = world.forge(TcpControl::None, 0, 0);
        forged.ack_number =
            forged.ack_number.map(|ack| smoltcp::wire::TcpSeqNumber(ack.0.wrapping_add(ahead)));
        forged.sack_ranges = [Some((1, 2)), Some((u32::MAX, 0)), Some((5, 1))];
        world.hosts[0].connection.take(&forged, now);
        assert_eq!(world.hosts[0].connection.phase(), Phase::Open);
    }
}

#[test]
fn a_refused_connection_says_so() {
    let mut world = World::new(Path::default(), [0, 0], 1380);
    // As if the owner had refused before anything was answered.
    world.hosts[1].connection.phase = Phase::Asked;
    world.hosts[1].connection.abort(Failure::Aborted);
    assert!(world.run(SECOND, |world| world.hosts[0].connection.failure() == Some(Failure::Refused)));
}

#[test]
fn memory_goes_back_when_nothing_is_held() {
    let mut world = open([200_000, 0]);
    assert!(world.run(10 * SECOND, |world| world.hosts[1].read == 200_000));
    world.run(20 * SECOND, |_| false);
    for host in &mut world.hosts {
        host.connection.relax();
    }
    assert_eq!(world.hosts[0].connection.settings.memories.used(), 0);
}
