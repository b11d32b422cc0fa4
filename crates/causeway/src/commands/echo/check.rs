//! The client of an echo server: dials it and checks that what comes back is what was sent. Once, with an exit code, or
//! again and again with the result on an HTTP port, so that it can be read from outside of a container.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use causeway_base::lock::lock;
use http::StatusCode;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, lookup_host};

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::output;
use crate::parts::paint::Paint;
use crate::parts::termination::Termination;

/// How long one round may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(200);
/// Lines of a round.
const LINES: usize = 5;

/// What was found so far.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// What is dialled.
    target: String,
    /// Rounds in which everything came back.
    passed: u64,
    /// Rounds in which not.
    failed: u64,
    /// How the last round failed; absent if it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How long the last round took.
    millis: u64,
}

/// Checks once; an error says what is wrong.
pub(super) async fn once(target: &str, udp: bool, format: FormatArg) -> anyhow::Result<()> {
    let took = round(target, udp).await?;
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    format.print(&Report { target: target.to_owned(), passed: 1, millis, ..Report::default() })
}

impl Answer for Report {
    fn text(&self, _: Paint) -> String {
        format!("{} echoes: {LINES} lines came back in {} ms", self.target, self.millis)
    }
}

/// Checks until told to stop, and answers HTTP with what was found: 200 if the last round passed, else 503.
pub(super) async fn keep(target: String, udp: bool, report: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(report)
        .await
        .with_context(|| format!("can't listen on {report}; choose another with --report ADDR:PORT"))?;
    output::line(format_args!("checking {target}, report on {}", listener.local_addr()?));
    let found = Arc::new(Mutex::new(Report { target: target.clone(), ..Report::default() }));
    let shown = found.clone();
    let router = Router::new().fallback(get(move || async move { answer(&lock(&shown)) }));
    let mut termination = Termination::listen()?;
    tokio::select! {
        served = axum::serve(listener, router) => served.context("the report can't be served"),
        () = check(&target, udp, &found) => Ok(()),
        () = termination.asked() => Ok(()),
    }
}

async fn check(target: &str, udp: bool, found: &Mutex<Report>) {
    let mut pause = tokio::time::interval(PAUSE);
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let outcome = round(target, udp).await;
        let mut report = lock(found);
        match outcome {
            Ok(took) => {
                report.passed += 1;
                report.millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                report.error = None;
            }
            Err(error) => {
                report.failed += 1;
                report.error = Some(format!("{error:#}"));
            }
        }
    }
}

fn answer(report: &Report) -> impl IntoResponse + use<> {
    let well = report.passed > 0 && report.error.is_none();
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = serde_json::to_string(report).unwrap_or_default() + "\n";
    (status, [(http::header::CONTENT_TYPE, "application/json")], text)
}

async fn round(target: &str, udp: bool) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let work = async {
        let address = lookup_host(target)
            .await
            .with_context(|| format!("can't find {target}"))?
            .next()
            .with_context(|| format!("{target} has no address"))?;
        if udp { datagrams(address).await } else { lines(address).await }
    };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(checked) => checked?,
        Err(_) => bail!("{target} did not echo within {} s", TIMEOUT.as_secs()),
    }
    Ok(start.elapsed())
}

fn line(number: usize) -> String {
    format!("line {number} of {LINES}, sent by process {}\n", std::process::id())
}

async fn lines(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream =
        TcpStream::connect(address).await.with_context(|| format!("can't connect to {address}"))?;
    for number in 1..=LINES {
        let sent = line(number).into_bytes();
        stream.write_all(&sent).await.with_context(|| format!("can't send line {number}"))?;
        let mut back = vec![0; sent.len()];
        stream.read_exact(&mut back).await.with_context(|| format!("line {number} did not come back"))?;
        ensure!(back == sent, "line {number} came back changed");
    }
    stream.shutdown().await.context("can't end the connection")?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.context("the connection did not end well")?;
    ensure!(rest.is_empty(), "{} bytes came that nobody sent", rest.len());
    Ok(())
}

async fn datagrams(address: SocketAddr) -> anyhow::Result<()> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await.with_context(|| format!("can't reach {address}"))?;
    for number in 1..=LINES {
        let sent = line(number).into_bytes();
        socket.send(&sent).await.with_context(|| format!("can't send datagram {number}"))?;
        let mut back = [0; 2048];
        let length = socket.recv(&mut back).await.with_context(|| format!("datagram {number} is lost"))?;
        ensure!(back[..length] == sent[..], "datagram {number} came back changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_back_changed_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let length = stream.read(&mut buffer).await.unwrap();
            buffer[0] ^= 1;
            stream.write_all(&buffer[..length]).await.unwrap();
        });
        let error = round(&target, false).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "line 1 came back changed");
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_that_names_the_address() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = format!("{:#}", round(&gone.to_string(), false).await.unwrap_err());
        assert!(error.starts_with(&format!("can't connect to {gone}")), "{error}");
    }
}
