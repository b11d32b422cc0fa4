//! So many questions a second, whatever the server does: how long answers take below its limit.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::questions::{Questions, SERVER};
use crate::compare::load::{Figures, Measured, Now, Settings, Stopwatch, nanos, quantiles};

const EVERY: Duration = Duration::from_micros(25);
const WARM_UP: Duration = Duration::from_millis(500);
const LENGTH: Duration = Duration::from_secs(4);
/// Which share of the answers may be missing before the times mean nothing.
const MOST_LOST: f64 = 0.01;

pub(crate) fn run(questions: &Questions, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(SERVER)?;
    socket.set_nonblocking(true)?;
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    let mut asked: Vec<Option<Instant>> = vec![None; questions.len()];
    let (mut place, mut lost, mut due) = (0, 0_u64, Instant::now());
    let (mut times, mut buffer) = (Vec::new(), [0; 512]);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => {
                lost = 0;
                times.clear();
            }
            Now::Over => break,
        }
        if Instant::now() >= due {
            due += EVERY;
            lost += u64::from(asked[place].replace(Instant::now()).is_some());
            // What can't be sent is missed later.
            let _ = socket.send(questions.packet(place));
            place = (place + 1) % questions.len();
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            let answered = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
            ensure!(questions.is_answer(&buffer[..length]), "a wrong answer");
            if let Some(since) = asked[answered].take() {
                times.push(nanos(since));
            }
        }
    }
    let spent = watch.stop();
    ensure!(spent.seconds > 0.0, "the machine was too busy to measure");
    let answered = times.len() as f64;
    ensure!(lost as f64 <= answered * MOST_LOST, "{lost} answers of {answered} did not come");
    let mut figures = Figures::from([("questions", answered), ("lost", lost as f64)]);
    quantiles(&mut times, &mut figures);
    Ok((spent, figures))
}
