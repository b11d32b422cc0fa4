//! The resolver that is forwarded to, and a server that says back what it hears: what any server costs at least.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::Context;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

use super::questions::SERVER;

/// Where it answers.
pub(crate) const RESOLVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5301);
const BATCH: usize = 64;

/// Answers every question for an address, to be kept for an hour, until the process ends.
pub(crate) fn start() -> anyhow::Result<()> {
    let socket = UdpSocket::bind(RESOLVER).context("can't start the resolver")?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // Who is not answered asks again.
            let _ = reply(&buffer[..length]).map(|reply| socket.send_to(&reply, from));
        }
    });
    Ok(())
}

fn reply(asked: &[u8]) -> Option<Vec<u8>> {
    let mut end = 12;
    while *asked.get(end)? != 0 {
        end += usize::from(asked[end]) + 1;
    }
    end += 5;
    let mut packet = asked.get(..end)?.to_vec();
    packet[2] = 0x80 | packet[2] & 1;
    packet[3] = 0x80;
    let is_address = asked[end - 3] == 1;
    packet[4..12].copy_from_slice(&[0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    if is_address {
        packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1]);
    }
    Some(packet)
}

/// Says back what it hears, with the bit that makes it an answer, until it is killed.
pub(crate) fn echo() -> anyhow::Result<()> {
    let socket = UdpSocket::bind(SERVER).context("can't listen")?;
    let fd = socket.as_raw_fd();
    let (mut headers_in, mut headers_out) =
        (MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None), MultiHeaders::preallocate(BATCH, None));
    let mut buffers = vec![[0_u8; 512]; BATCH];
    loop {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let received = recvmmsg(fd, &mut headers_in, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None);
        let heard: Vec<_> = received.context("can't receive")?.map(|m| (m.address, m.bytes)).collect();
        for (buffer, _) in buffers.iter_mut().zip(&heard) {
            buffer[2] |= 0x80;
        }
        let to: Vec<Option<SockaddrStorage>> = heard.iter().map(|(address, _)| *address).collect();
        let slices: Vec<[IoSlice<'_>; 1]> = buffers
            .iter()
            .zip(&heard)
            .map(|(buffer, (_, length))| [IoSlice::new(&buffer[..*length])])
            .collect();
        let nothing: [ControlMessage<'_>; 0] = [];
        sendmmsg(fd, &mut headers_out, slices.iter(), &to, nothing, MsgFlags::empty())
            .context("can't send")?;
    }
}
