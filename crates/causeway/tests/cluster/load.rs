//! Requests from a virtual machine at a steady rate, each on a connection of its own, to one of two addresses and, if that
//! does not take it, to the other.

use std::fs::{self, File};
use std::process::{Child, Stdio};

use crate::world::World;

/// Programs that ask, and how often each does in a second.
const ASKERS: usize = 4;
const RATE: &str = "25/s";

pub struct Load {
    askers: Vec<(Child, String)>,
}

/// What became of the requests.
#[derive(Debug)]
pub struct Outcome {
    pub answered: usize,
    pub failures: Vec<String>,
}

impl Load {
    /// 100 requests a second for a host at these addresses, half of them to each first.
    pub fn start(world: &World, host: &str, addresses: [&str; 2]) -> Self {
        let askers = (0..ASKERS).map(|number| {
            let [first, second] = [addresses[number % 2], addresses[(number + 1) % 2]];
            let log = world.file(&format!("load-{number}"));
            let mut curl = world.vm.command("curl");
            curl.args(["--silent", "--rate", RATE, "--max-time", "15", "--connect-timeout", "8"]);
            curl.args(["--cacert", &world.file("cert.pem"), "--output", "/dev/null"]);
            curl.args(["--header", "Connection: close"]);
            // Standard output comes in blocks, the last of which would be lost.
            curl.args(["--write-out", "%{stderr}%{http_code} %{time_total} %{remote_ip} %{errormsg}\n"]);
            curl.args(["--resolve", &format!("{host}:443:{first},{second}")]);
            curl.arg(format!("https://{host}/?[1-1000000]"));
            let out = File::create(&log).unwrap();
            let child = curl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out).spawn().unwrap();
            (child, log)
        });
        Self { askers: askers.collect() }
    }

    /// How many requests have ended so far.
    pub fn ended(&self) -> usize {
        self.askers.iter().map(|(_, log)| fs::read_to_string(log).unwrap().lines().count()).sum()
    }

    /// Ends it; what had an end until then counts.
    pub fn stop(mut self) -> Outcome {
        for (asker, _) in &mut self.askers {
            let _ = asker.kill();
            let _ = asker.wait();
        }
        let texts: Vec<String> =
            self.askers.iter().map(|(_, log)| fs::read_to_string(log).unwrap()).collect();
        // The last line may be half of one.
        let lines =
            texts.iter().flat_map(|text| text.split_inclusive('\n')).filter(|line| line.ends_with('\n'));
        let (well, ill): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("200 "));
        Outcome { answered: well.len(), failures: ill.into_iter().map(str::to_owned).collect() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for (asker, _) in &mut self.askers {
            let _ = asker.kill();
            let _ = asker.wait();
        }
    }
}

impl Outcome {
    /// Says what was counted, and fails if something failed.
    pub fn check(&self, what: &str) {
        println!("{what}: {} requests, {} failed", self.answered + self.failures.len(), self.failures.len());
        let first: String = self.failures.iter().take(10).cloned().collect();
        assert!(self.failures.is_empty() && self.answered > 0, "{what}: {}\n{first}", self.failures.len());
    }
}
