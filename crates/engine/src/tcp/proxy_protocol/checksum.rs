//! CRC32c (Castagnoli) of a header, as its checksum TLV wants it: with the checksum's own four bytes as zeros.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut remainder = index as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 1;
            remainder >>= 1;
            if carry == 1 {
                remainder ^= 0x82f6_3b78;
            }
            bit += 1;
        }
        table[index] = remainder;
        index += 1;
    }
    table
}

/// The checksum of `header` with the four bytes from `field` on taken as zeros.
pub(super) fn with_zeroed_field(header: &[u8], field: usize) -> u32 {
    let zeroed = field..field + 4;
    let bytes = header.iter().enumerate().map(|(at, byte)| if zeroed.contains(&at) { 0 } else { *byte });
    !bytes.fold(!0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_check_value_of_crc32c() {
        assert_eq!(super::with_zeroed_field(b"123456789", 9), 0xe306_9283);
        assert_eq!(super::with_zeroed_field(&[0xff; 32], 32), 0x62a8_ab43);
        assert_eq!(super::with_zeroed_field(&[7, 7, 7, 7], 0), super::with_zeroed_field(&[0; 4], 4));
    }
}
