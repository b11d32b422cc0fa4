//! Messages made by hand, as no tool would send them.

/// A question for an address, without EDNS.
pub(crate) fn question(id: u16, name: &str) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.bytes());
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}

/// The reply to a question with this address, which may be kept for a minute.
pub(crate) fn reply(question: &[u8], address: [u8; 4]) -> Vec<u8> {
    reply_for(question, address, 60)
}

/// The same, to be kept for so many seconds.
pub(crate) fn reply_for(question: &[u8], address: [u8; 4], seconds: u8) -> Vec<u8> {
    let end = question_end(question);
    let mut packet = question[..end].to_vec();
    packet[2] |= 0x80;
    packet[3] |= 0x80;
    packet[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
    packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, seconds, 0, 4]);
    packet.extend(address);
    packet
}

fn question_end(packet: &[u8]) -> usize {
    let mut at = 12;
    while packet[at] != 0 {
        at += usize::from(packet[at]) + 1;
    }
    at + 5
}

/// The name that is asked for, in lower case.
pub(crate) fn name(packet: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut at = 12;
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_lowercase());
        at = end;
    }
    labels.join(".")
}

/// With its length in front, as on TCP.
pub(crate) fn framed(packet: &[u8]) -> Vec<u8> {
    [&(packet.len() as u16).to_be_bytes()[..], packet].concat()
}
