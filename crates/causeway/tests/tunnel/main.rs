//! Tunnels from containers to the host through the outer door: `causeway up` with real Docker and real Podman, kubectl,
//! and containers that dial. The image is built by the program itself, without a registry.

#![allow(clippy::unwrap_used, clippy::panic)]

use causeway_testkit::daemon::Daemon;

mod bad_input;
mod bed;
mod carries;
mod demo;
mod echo;
mod faults;
mod firewall;
mod heals;
mod inherits;
mod lies;
mod load;
mod logs;
mod networks;
mod no_runtime;
mod operator;
mod outlives;
mod reaches;
mod strangers;
mod talks;
mod truth;
mod world;

macro_rules! on_both {
    ($($module:ident: $($name:ident),+;)+) => {
        mod docker {$($(
            #[test]
            fn $name() {
                crate::$module::$name(crate::Daemon::Docker);
            }
        )+)+}

        mod podman {$($(
            #[test]
            fn $name() {
                crate::$module::$name(crate::Daemon::Podman);
            }
        )+)+}
    };
}

on_both! {
    bad_input: a_network_that_comes_later, bad_services_and_ports_stop_nobody_else;
    carries: tunnels_come_and_go, a_service_that_goes_and_comes_and_moves, only_the_sources_that_are_allowed, ipv6_too,
        a_base_image_counts;
    demo: the_demo_tells_its_story, an_interrupted_demo_leaves_nothing;
    faults: each_end_killed_again_and_again_under_load, packets_lost_for_a_while, nothing_grows;
    heals: a_container_that_is_killed_or_removed, a_control_plane_that_crashed, a_runtime_that_is_restarted,
        a_name_that_is_used_again, a_network_that_is_removed, what_a_dead_owner_left;
    lies: nothing_is_ready_that_does_not_work;
    networks: networks_of_every_mode;
    outlives: a_control_plane_that_is_killed_stopped_or_replaced, a_control_plane_that_is_taken_down_with_all;
    reaches: a_container_reaches_the_host_by_name;
    strangers: strangers_on_the_network_get_nothing, what_was_recorded_is_worth_nothing;
    truth: a_client_that_is_paused_or_cut_off;
}

/// With Podman, which removes the containers of an image along with it, and lost them.
#[test]
fn an_image_that_is_removed_by_force() {
    heals::an_image_that_is_removed_by_force(Daemon::Podman);
}

/// With one runtime: it is the control plane that has to be patient.
#[test]
fn an_idle_stream_is_left_alone() {
    heals::an_idle_stream_is_left_alone(Daemon::Docker);
}

/// With one runtime: what is away here is the API server, whatever runs the containers.
#[test]
fn a_minute_without_an_api_server() {
    outlives::a_minute_without_an_api_server(Daemon::Docker);
}
