//! The same for a client that speaks HTTP/2: its frames in, requests of HTTP/1.1 out.

use std::cell::RefCell;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Front, Passed};
use crate::http::buffer::Buffers;
use crate::http::decision::{self, Decision};
use crate::http::h2::{self, Inflow, head};
use crate::http::sink::{Patience, Sink, carry};
use crate::http::source::Source;
use crate::http::wire::Wire;
use crate::tcp::Received;

pub(super) fn pass(front: &Front, bytes: &[u8]) -> Passed {
    let mut cx = Context::from_waker(Waker::noop());
    let mut passed = Passed::default();
    let mut shaking = pin!(h2::settings().handshake::<_, Bytes>(Said(bytes)));
    let Poll::Ready(Ok(mut connection)) = shaking.as_mut().poll(&mut cx) else { return passed };
    let mut calls = Vec::new();
    while let Poll::Ready(Some(Ok(call))) = connection.poll_accept(&mut cx) {
        calls.push(call);
    }
    for (request, _respond) in calls {
        let (parts, body) = request.into_parts();
        let mut body = Inflow::new(body);
        if body.ready().is_err() {
            continue;
        }
        let (mut lines, mut index, mut out) = (Vec::new(), Vec::new(), Vec::new());
        head::write_lines(&mut lines, &parts.headers);
        let decided = match head::request(&parts, &lines, &mut index, body.is_bare()) {
            Ok(request) => decision::decide_on(&request, &front.router, &front.client, None, &mut out),
            Err(fault) => {
                passed.refused = Some(fault.status);
                continue;
            }
        };
        let forward = match decided {
            Decision::Forward(forward) => forward,
            Decision::Answered { status, .. } => {
                passed.refused = Some(status);
                continue;
            }
        };
        let endpoint = Endpoint::default();
        if forward.upgrades {
            // What follows is for another protocol.
            endpoint.0.borrow_mut().extend_from_slice(&out);
        } else {
            let mut source = Source::<Endpoint>::H2(body);
            let mut sink = Sink::h1(&endpoint, out, forward.framing);
            let buffers = Buffers::default();
            let carried =
                pin!(carry(&mut source, &mut sink, &buffers, Patience::default(), true, |_| Ok(())));
            match carried.poll(&mut cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => continue,
                Poll::Pending => {
                    passed.waiting += 1;
                    continue;
                }
            }
        }
        passed.requests.push(endpoint.0.into_inner());
        passed.routes.push(forward.route.base.name.clone());
    }
    passed
}

/// All that a client says; it listens to everything, and stays.
struct Said<'a>(&'a [u8]);

impl AsyncRead for Said<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Poll::Pending;
        }
        let (now, later) = self.0.split_at(self.0.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Said<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What an endpoint gets. It says nothing.
#[derive(Default)]
struct Endpoint(RefCell<Vec<u8>>);

impl Wire for Endpoint {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_receive(&self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<Received>> {
        Poll::Pending
    }

    fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut bytes = self.0.borrow_mut();
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        Ok(first.len() + second.len())
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn end(&self) {}

    fn was_cut(&self) -> bool {
        false
    }
}
