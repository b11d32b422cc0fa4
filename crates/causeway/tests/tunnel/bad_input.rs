//! What a person gets wrong is said where they look for it, and nothing else stops for it.

use causeway_api::conditions::ConditionType;
use causeway_api::{TunnelProxyState, TunnelState};
use causeway_testkit::daemon::Daemon;

use crate::echo::{Echo, round};
use crate::world::{World, client_service, proxy, server_service};

pub fn a_network_that_comes_later(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.kubectl.apply(&proxy("early", "later", "", &[("api", "api", "")])).ok();
    world.until("it waits for its network and says so", || {
        world.status("early").state == Some(TunnelProxyState::Pending)
            && world.why("early", ConditionType::Ready).contains("later")
    });
    assert!(world.container("early").is_none());
    world.network("later", "{}");
    world.until_ready("early");
    assert_eq!(round(world.address("early", "api"), "x").unwrap(), "x");
    assert!(
        world.logs("early").contains("later"),
        "the log tells what it waited for: {}",
        world.logs("early")
    );

    // What the API refuses, it refuses with the field.
    let refused = |yaml: &str| world.kubectl.apply(yaml).fails();
    let comma = refused(&proxy("x", "later", ", aliases: ['a,b']", &[]));
    assert!(comma.contains("spec.aliases"), "{comma}");
    let twice = refused(&proxy("x", "later", "", &[("api", "api", ""), ("api", "api", "")]));
    assert!(twice.contains("spec.tunnels"), "{twice}");
    let changed = refused(&proxy("early", "later", "", &[("api", "api", ", clientPort: 99")]));
    assert!(changed.contains("a tunnel can't be changed"), "{changed}");
    let reserved = refused(&proxy("x", "later", "", &[("api", "api", ", clientPort: 15049")]));
    assert!(reserved.contains("clientPort") && reserved.contains("are the tunnel's own"), "{reserved}");
    let moved = refused(&proxy("early", "another", "", &[("api", "api", "")]));
    assert!(moved.contains("can't be changed"), "{moved}");
    // The API server takes 1024 tunnels; ten times as many are refused at once.
    let many: Vec<_> = (0..10_240).map(|n| format!("t{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "api", "")).collect();
    let yaml = proxy("x", "later", "", &many);
    let (_, object) = yaml.rsplit_once("kind: ContainerNetworkTunnelProxy").unwrap();
    let object = format!("apiVersion: causeway.dev/v1alpha1\nkind: ContainerNetworkTunnelProxy{object}");
    let much = world.kubectl.with_input(&object, &["create", "-f", "-"]).fails();
    assert!(much.contains("spec.tunnels: Too many"), "{much}");
}

pub fn bad_services_and_ports_stop_nobody_else(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    let selecting = "apiVersion: v1\nkind: Service\nmetadata: {name: selecting-client}\nspec: {selector: {a: b}, ports: [{port: 80}]}\n---\n";
    let tunnels = [
        ("good", "api", ", clientPort: 7000"),
        ("selecting", "api", ""),
        ("taken", "api", ", clientPort: 7000"),
        ("nowhere", "no-such-service", ""),
    ];
    world.kubectl.apply(&proxy("mixed", "app", "", &tunnels)).ok();
    world.kubectl.apply(selecting).ok();
    world.kubectl.ok(&["delete", "service", "nowhere-client"]);
    world.until_tunnel("mixed", "good", TunnelState::Ready);
    let errors = |name: &str| world.tunnel("mixed", name).error_message.unwrap_or_default();
    for (name, words) in
        [("selecting", "selector"), ("taken", "7000 is that of tunnel good"), ("nowhere", "no-such-service")]
    {
        world.until(&format!("{name} says what is wrong"), || errors(name).contains(words));
        assert_ne!(world.tunnel("mixed", name).state, Some(TunnelState::Ready), "{name}");
    }
    assert_eq!(round(world.address("mixed", "good"), "x").unwrap(), "x");
    assert_eq!(world.status("mixed").state, Some(TunnelProxyState::Running), "bad tunnels fail alone");
    assert!(!world.holds("mixed", ConditionType::TunnelsReady));
    assert!(
        world.why("mixed", ConditionType::TunnelsReady).contains("selecting"),
        "the condition names them"
    );
    assert_eq!(world.endpoints("selecting-client"), [], "a Service with a selector is not written to");

    // Put right, they work without more ado.
    world
        .kubectl
        .apply(&[client_service("selecting-client"), client_service("nowhere-client")].concat())
        .ok();
    world.until_tunnel("mixed", "selecting", TunnelState::Ready);
    world.kubectl.apply(&server_service("no-such-service", echo.address, "TCP")).ok();
    world.until_tunnel("mixed", "nowhere", TunnelState::Ready);
    assert_eq!(round(world.address("mixed", "nowhere"), "x").unwrap(), "x");
}
