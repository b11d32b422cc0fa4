//! Certificates are renewed while they are served, and no client notices.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;

use crate::world::{World, get};

/// Longer than two renewals take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// The serial number of the certificate that is served.
fn served(name: &str, address: &str, port: &str) -> String {
    let ask = format!(
        "openssl s_client -connect {address}:{port} -servername {name} </dev/null 2>/dev/null | openssl x509 -noout -serial"
    );
    finish(Command::new("sh").args(["-c", &ask])).stdout.trim().to_owned()
}

#[test]
fn a_certificate_is_renewed_twice_under_load_without_a_failed_request() {
    let name = "shop.apps.test";
    let world = World::published(&["--certificate-lifetime", "60s"], name);
    let (address, port) = world.place();
    let authority = world.authority();
    let (ends, asked, failed) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let mut serials = vec![served(name, &address, &port)];
    assert!(serials[0].starts_with("serial="), "{serials:?}");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let ran = finish(&mut get(&authority, name, &address, &port));
                    asked.fetch_add(1, Ordering::Relaxed);
                    if !ran.stdout.starts_with("shop") {
                        failed.lock().unwrap().push(ran.to_string());
                    }
                }
            });
        }
        // Whatever comes of it, the clients end.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..2 {
                eventually("another certificate is served", PATIENCE, || {
                    let now = served(name, &address, &port);
                    let is_new = now.starts_with("serial=") && !serials.contains(&now);
                    if is_new { Ok(now) } else { Err(serials.join(", ")) }
                });
                serials.push(served(name, &address, &port));
            }
        }));
        ends.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    let asked = asked.into_inner();
    println!("{asked} requests on connections of their own, certificates {serials:?}");
    assert!(asked > 100, "{asked} requests");
    assert_eq!(failed.into_inner().unwrap(), Vec::<String>::new());
    // Those that were replaced are given up.
    eventually("one certificate is kept", PATIENCE, || {
        let secrets = world.kubectl.ok(&["get", "secrets", "-n", "causeway-edge", "-o", "name"]);
        let kept = secrets.lines().filter(|name| name.contains("hostname-")).count();
        if kept <= 2 { Ok(()) } else { Err(secrets) }
    });
}
