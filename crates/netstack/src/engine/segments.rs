//! Segments as packets.

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpAddress, IpProtocol, TcpPacket, TcpRepr};

use crate::device::Device;
use crate::flow::Ends;
use crate::ip;
use crate::tcp::{Connection, Outgoing};

/// Sends a segment of a connection.
pub(super) fn send_segment<D: Device>(
    device: &mut D,
    ends: &Ends,
    connection: &Connection,
    mut outgoing: Outgoing,
) {
    outgoing.header.src_port = ends.here.port();
    outgoing.header.dst_port = ends.there.port();
    let (here, there) = ends.addresses();
    let length = ip::header_len(there) + outgoing.header.header_len() + outgoing.length;
    device.send(length, |packet| {
        write_segment(packet, here, there, &outgoing.header, |payload| connection.fill(&outgoing, payload));
    });
}

/// Writes a whole packet; `fill` writes the payload.
pub(super) fn write_segment(
    packet: &mut [u8],
    from: IpAddr,
    to: IpAddr,
    header: &TcpRepr<'_>,
    fill: impl FnOnce(&mut [u8]),
) {
    let start = ip::header_len(to);
    let addresses = (IpAddress::from(from), IpAddress::from(to));
    let bytes = &mut packet[start..];
    // The checksum is over the payload, which is not there yet.
    header.emit(
        &mut TcpPacket::new_unchecked(&mut *bytes),
        &addresses.0,
        &addresses.1,
        &ChecksumCapabilities::ignored(),
    );
    fill(&mut bytes[header.header_len()..]);
    TcpPacket::new_unchecked(bytes).fill_checksum(&addresses.0, &addresses.1);
    ip::write_header(packet, from, to, IpProtocol::Tcp);
}
