//! Which requests come here: every form that a rule has on the command line.

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;

use crate::world::{Laptop, World};

/// Who answers a request that is sent so.
fn by(address: &str, path: &str, how: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "--max-time", "5"]).args(how);
    let ran = finish(curl.arg(format!("http://{address}{path}")));
    ran.stdout.lines().next().map_or(ran.stderr, str::to_owned)
}

#[test]
fn requests_are_told_apart_by_whatever_a_rule_can_say() {
    let world = World::start();
    let address = world.address("web");
    let laptop = Laptop::connected(&world, "laptop");
    let check = ["-H", "x-user: me", "-A", "kube-probe/1.36"];
    for (rules, here, at_home) in [
        (
            &["--header", "x-user^=al"][..],
            &[("/", &["-H", "X-USER: alice"][..])][..],
            &[("/", &["-H", "x-user: bal"][..]), ("/", &[])][..],
        ),
        (
            // Somewhere in it, unless it says where.
            &["--header", "X-User~=b[oi]b", "--header", "team~=^a$"],
            &[("/", &["-H", "x-user: abob", "-H", "team: a"])],
            &[
                ("/", &["-H", "x-user: bub", "-H", "team: a"]),
                ("/", &["-H", "x-user: bob", "-H", "team: ab"]),
            ],
        ),
        (
            &["--path", "/api/*", "--method", "POST"],
            &[("/api/x", &["-X", "POST"])],
            &[("/api/x", &[]), ("/other", &["-X", "POST"])],
        ),
        (
            &["--path", "~/v[12]/.*", "--path", "/cart", "--header", "a=b"],
            &[("/v2/x", &["-H", "a: b"]), ("/cart", &["-H", "a: b"])],
            &[("/v3/x", &["-H", "a: b"]), ("/carts", &["-H", "a: b"]), ("/cart", &[])],
        ),
        (
            &["--match", "header a=b; path /x*", "--match", "method DELETE"],
            &[("/xy", &["-H", "a: b"]), ("/", &["-X", "DELETE"])],
            &[("/xy", &[]), ("/", &["-H", "a: b"])],
        ),
        // Health checks are the target's, unless they are asked for.
        (&["--header", "x-user=me"], &[("/", &["-H", "x-user: me"])], &[("/", &check)]),
        (&["--header", "x-user=me", "--health-checks"], &[("/", &check)], &[("/", &[])]),
    ] {
        laptop.intercept("deploy/web", "http", rules).ok();
        let wanted = here.iter().map(|ask| (ask, "laptop")).chain(at_home.iter().map(|ask| (ask, "web")));
        for ((path, how), name) in wanted {
            eventually(&format!("{rules:?}: {name} answers {path} {how:?}"), PATIENCE, || {
                let by = by(&address, path, how);
                if by == name { Ok(()) } else { Err(by) }
            });
        }
    }
}
