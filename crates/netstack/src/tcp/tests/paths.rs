//! What arrives, and how fast, on good and on bad paths.

use std::time::Duration;

use proptest::prelude::*;

use super::world::{Path, World};

const MINUTE: Duration = Duration::from_mins(1);

/// Megabits a second at which one host's bytes arrived.
fn speed(path: Path, bytes: u64) -> (f64, World) {
    let mut world = World::new(path, [bytes, 0], 1380);
    assert!(world.run(10 * MINUTE, World::is_complete), "after {:?}", world.elapsed());
    (bytes as f64 * 8.0 / 1e6 / world.elapsed().as_secs_f64(), world)
}

#[test]
fn a_clean_path_is_filled() {
    let (speed, world) = speed(Path::default(), 100 << 20);
    assert!(speed > 500.0, "{speed} Mbit/s");
    assert_eq!(world.lost, 0);
}

#[test]
fn a_short_talk_takes_a_few_round_trips() {
    let mut world = World::new(Path::default(), [1000, 1000], 1380);
    assert!(world.run(MINUTE, World::is_complete));
    assert!(world.elapsed() <= Duration::from_millis(60), "{:?}", world.elapsed());
}

#[test]
fn one_lost_in_a_thousand_costs_little() {
    let (speed, world) = speed(Path { loss: 1000, ..Path::default() }, 100 << 20);
    assert!(speed > 250.0, "{speed} Mbit/s, {} of {} lost, stall {:?}", world.lost, world.sent, world.stall);
    assert!(world.stall < Duration::from_millis(500), "{:?}", world.stall);
}

#[test]
fn one_lost_in_a_hundred_is_borne() {
    let (speed, world) = speed(Path { loss: 10_000, ..Path::default() }, 50 << 20);
    assert!(speed > 80.0, "{speed} Mbit/s, {} of {} lost, stall {:?}", world.lost, world.sent, world.stall);
}

#[test]
fn a_narrow_path_is_used_and_not_flooded() {
    // 100 Mbit/s, half a round trip's worth of room.
    let rate = 100e6 / 8.0;
    let path = Path { rate: Some((rate, 128 << 10)), ..Path::default() };
    let (speed, world) = speed(path, 50 << 20);
    let loss = world.lost as f64 / world.sent as f64;
    assert!(speed > 75.0, "{speed} Mbit/s, {loss} lost");
    assert!(loss < 0.03, "{loss} lost");
}

#[test]
fn a_deep_queue_is_no_trap() {
    let rate = 20e6 / 8.0;
    let path = Path { rate: Some((rate, 1 << 20)), ..Path::default() };
    let (speed, _) = speed(path, 20 << 20);
    assert!(speed > 15.0, "{speed} Mbit/s");
}

#[test]
fn segments_that_overtake_each_other_are_not_lost() {
    let path = Path { jitter: Duration::from_millis(4), ..Path::default() };
    let (speed, world) = speed(path, 20 << 20);
    let enough = (20 << 20) / 1380;
    assert!(speed > 50.0, "{speed} Mbit/s");
    // Not many are sent twice; acknowledgements are sent, too.
    assert!(world.sent < enough * 5 / 2, "{} sent", world.sent);
}

#[test]
fn a_path_that_takes_small_segments_only_is_found_out() {
    let mut world = World::new(Path { widest: 1300, ..Path::default() }, [100_000, 100_000], 1380);
    assert!(world.run(MINUTE, World::is_complete), "{:?}", world.phases());
    assert!(world.elapsed() < Duration::from_secs(10), "{:?}", world.elapsed());
}

#[test]
fn the_loss_of_the_last_segment_costs_no_timeout() {
    // Many short talks: the tail is what is lost most dearly.
    let mut slow = 0;
    for seed in 0..200 {
        let path = Path { loss: 50_000, seed, ..Path::default() };
        let mut world = World::new(path, [20_000, 20_000], 1380);
        assert!(world.run(MINUTE, World::is_complete));
        slow += u32::from(world.elapsed() > Duration::from_millis(1500));
    }
    // One in twenty loses its SYN or the answer, which takes a second each.
    assert!(slow < 50, "{slow} of 200 took long");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_arrives_whatever_the_path_does(
        seed in any::<u64>(),
        loss in prop_oneof![Just(0), 0u64..20_000, 0u64..250_000],
        copies in prop_oneof![Just(0), 0u64..100_000],
        delay in 0u64..80_000,
        jitter in prop_oneof![Just(0), 0u64..20_000],
        says in (0u64..400_000, 0u64..400_000),
        segment in 200u16..9000,
        reads in prop_oneof![Just(u64::MAX), 100u64..4000],
    ) {
        let path = Path {
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            loss, copies, seed,
            ..Path::default()
        };
        let mut world = World::new(path, [says.0, says.1], segment);
        world.hosts[0].reads = reads;
        let complete = world.run(20 * MINUTE, World::is_complete);
        prop_assert!(complete, "{:?} after {:?}: read {} and {}", world.phases(), world.elapsed(), world.hosts[0].read, world.hosts[1].read);
        // Both forget each other in the end.
        let done = world.run(40 * MINUTE, |world| world.hosts.iter().all(|host| host.connection.is_done()));
        prop_assert!(done, "{:?}", world.phases());
    }
}
