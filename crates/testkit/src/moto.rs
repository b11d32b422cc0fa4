//! Moto, which plays the APIs of AWS. `scripts/test-deps.sh` installs it; it may be missing on a user's machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use crate::spawned::Spawned;
use crate::{environment, peer, port};

/// The server, with what tests need beyond it.
const SERVER: &str = include_str!("moto.py");
/// In its folder: while it is there, no change is everywhere.
const LATE: &str = "late";

/// What was asked for, by which key and with which token.
fn asked(log: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    log.lines().filter_map(|line| {
        let (action, by) = line.strip_prefix("asked: ")?.split_once(" by ")?;
        let (key, token) = by.split_once(' ')?;
        Some((action, key, token))
    })
}

/// A running server, without anything in it.
pub struct Moto {
    running: Spawned,
    address: SocketAddr,
    python: PathBuf,
}

impl Moto {
    /// Starts one that takes certificates as proven `validation` seconds after they were asked for, and allows everything.
    /// Where it can't be had there is none, and the test is skipped by name.
    ///
    /// # Panics
    /// When it does not start, and where it can't be had although `CI=true`.
    pub fn start(validation: u32) -> Option<Self> {
        Self::launch(Ipv4Addr::LOCALHOST.into(), "MOTO_ACM_VALIDATION_WAIT", validation)
    }

    /// The same on another address of this machine, with certificates that are proven at once.
    ///
    /// # Panics
    /// As there.
    pub fn start_on(host: IpAddr) -> Option<Self> {
        Self::launch(host, "MOTO_ACM_VALIDATION_WAIT", 0)
    }

    /// As [`Self::start`], but after so many requests only what policies allow is allowed.
    ///
    /// # Panics
    /// As there.
    pub fn guarded(requests: u32) -> Option<Self> {
        Self::launch(Ipv4Addr::LOCALHOST.into(), "INITIAL_NO_AUTH_ACTION_COUNT", requests)
    }

    fn launch(host: IpAddr, setting: &str, value: u32) -> Option<Self> {
        let bin = environment::folder().join("moto/bin");
        // By Python, since a copied environment has the old place in its scripts.
        let python = bin.join("python");
        if !bin.join("moto_server").is_file() {
            peer::skip(&format!("moto is missing in {}; run scripts/test-deps.sh", bin.display()));
            return None;
        }
        let directory = tempfile::Builder::new().prefix("causeway-moto-").tempdir().unwrap();
        let address = SocketAddr::new(host, port::free());
        let mut command = Command::new(&python);
        command.args(["-c", SERVER, "-H", &host.to_string(), "-p", &address.port().to_string()]);
        command.env(setting, value.to_string());
        let running = Spawned::start(directory, &mut command, || TcpStream::connect(address).is_ok());
        Some(Self { running, address, python })
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs a script with clients of boto3 named `route53`, `acm`, `elbv2`, `ec2` and `iam`, and gives what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn python(&self, script: &str) -> String {
        let clients = format!(
            "import boto3\n\
             client = lambda name: boto3.client(name, endpoint_url='{}', region_name='eu-central-1', \
             aws_access_key_id='test', aws_secret_access_key='test')\n\
             route53, acm, elbv2, ec2, iam = map(client, ['route53', 'acm', 'elbv2', 'ec2', 'iam'])\n",
            self.endpoint()
        );
        let output = Command::new(&self.python).args(["-c", &format!("{clients}{script}")]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", self.running.log());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// From here on, no change of a record is everywhere, until [`Self::catch_up`] says so.
    ///
    /// # Panics
    /// When its folder is gone.
    pub fn lag(&self) {
        std::fs::write(self.running.path().join(LATE), "").unwrap();
    }

    /// All changes of records are everywhere.
    ///
    /// # Panics
    /// When it did not lag.
    pub fn catch_up(&self) {
        std::fs::remove_file(self.running.path().join(LATE)).unwrap();
    }

    /// How often this was asked for, in Amazon's own word for it, such as `GetChange`; by this key if there is one.
    pub fn asked(&self, action: &str, key: Option<&str>) -> usize {
        let log = self.running.log();
        asked(&log).filter(|(asked, by, _)| *asked == action && key.is_none_or(|key| key == *by)).count()
    }

    /// How often this key asked for a certificate, for each token that makes asking twice asking once.
    pub fn certificates_asked(&self, key: &str) -> BTreeMap<String, usize> {
        let (log, mut tokens) = (self.running.log(), BTreeMap::new());
        for (_, _, token) in asked(&log).filter(|(asked, by, _)| *asked == "RequestCertificate" && *by == key)
        {
            *tokens.entry(token.to_owned()).or_default() += 1;
        }
        tokens
    }

    /// How often it was asked for something whose line in the log has this text.
    pub fn count(&self, text: &str) -> usize {
        self.running.log().lines().filter(|line| line.contains(text)).count()
    }
}
