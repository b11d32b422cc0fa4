//! A header block in each form in which it may have to be written: as browsers and gRPC do it, which put fields into the
//! table of the other side once and name their places from then on, or without a table where there is none.

/// The place of the first field of the table behind the fixed ones.
const FIRST_PLACE: u8 = 62;
/// Says that the table is not used, which has to be told to who makes it smaller than usual.
const NO_TABLE: u8 = 0x20;
const STATUS_200: u8 = 0x88;

/// The name of a field: its place in the fixed table, or its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    Known(u8),
    Text(&'static str),
}

/// What was said of the table so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The next fields go into the table.
    First,
    /// They are in it.
    Again,
    /// There is none, which is still to be told.
    FirstWithout,
    Without,
}

impl Form {
    /// After one whole request or answer.
    pub(super) fn next(self) -> Self {
        match self {
            Self::First | Self::Again => Self::Again,
            Self::FirstWithout | Self::Without => Self::Without,
        }
    }

    pub(super) fn without_table(self) -> Self {
        if self == Self::Without { self } else { Self::FirstWithout }
    }
}

/// The fields of a request, of an answer, or of trailers.
pub(crate) struct Block {
    first: Vec<u8>,
    again: Vec<u8>,
    first_without: Vec<u8>,
    without: Vec<u8>,
}

impl Block {
    /// Fields that stand whole in the fixed table, then others, then so many that go into the table behind them.
    pub(crate) fn new(fixed: &[u8], fields: &[(Name, &str)], behind: u8) -> Self {
        let (mut first, mut again, mut without) = (fixed.to_vec(), fixed.to_vec(), fixed.to_vec());
        for (place, (name, value)) in fields.iter().enumerate() {
            literal(&mut first, *name, value, 0x40, 6);
            literal(&mut without, *name, value, 0, 4);
            again.push(0x80 | (FIRST_PLACE + behind + (fields.len() - 1 - place) as u8));
        }
        let first_without = [&[NO_TABLE], without.as_slice()].concat();
        Self { first, again, first_without, without }
    }

    /// `leads` is the first block of a request or answer.
    pub(super) fn bytes(&self, form: Form, leads: bool) -> &[u8] {
        match form {
            Form::First => &self.first,
            Form::Again => &self.again,
            Form::FirstWithout if leads => &self.first_without,
            Form::FirstWithout | Form::Without => &self.without,
        }
    }
}

fn literal(out: &mut Vec<u8>, name: Name, value: &str, kind: u8, bits: u8) {
    match name {
        Name::Known(place) => {
            let most = (1 << bits) - 1;
            if place < most {
                out.push(kind | place);
            } else {
                out.extend([kind | most, place - most]);
            }
        }
        Name::Text(text) => {
            out.extend([kind, text.len() as u8]);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out.push(value.len() as u8);
    out.extend_from_slice(value.as_bytes());
}

/// Whether fields begin with the status 200, which stands in the fixed table and which everybody names by its place.
pub(super) fn is_ok(fields: &[u8]) -> bool {
    let mut rest = fields;
    while let Some((byte, after)) = rest.split_first() {
        if byte & 0xe0 != NO_TABLE {
            return *byte == STATUS_200;
        }
        // A new size of the table: more bytes follow while they say so.
        let long = byte & 0x1f == 0x1f;
        let more = if long { after.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1 } else { 0 };
        rest = after.get(more..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_by_their_place_once_they_are_in_the_table() {
        let fields = [(Name::Known(1), "a"), (Name::Known(58), "b"), (Name::Text("te"), "c")];
        let block = Block::new(&[0x82], &fields, 1);
        assert_eq!(block.bytes(Form::First, true), b"\x82\x41\x01a\x7a\x01b\x40\x02te\x01c");
        assert_eq!(block.bytes(Form::Again, true), [0x82, 0xc1, 0xc0, 0xbf]);
        assert_eq!(block.bytes(Form::FirstWithout, true), b"\x20\x82\x01\x01a\x0f\x2b\x01b\x00\x02te\x01c");
        assert_eq!(block.bytes(Form::FirstWithout, false), block.bytes(Form::Without, true));
    }

    #[test]
    fn the_status_is_found_behind_a_new_size_of_the_table() {
        assert!(is_ok(&[0x88]) && is_ok(&[0x20, 0x88, 1]) && is_ok(&[0x3f, 0xe1, 0x1f, 0x88]));
        assert!(!is_ok(&[0x8d]) && !is_ok(&[]) && !is_ok(&[0x20]) && !is_ok(&[0x3f, 0xff]));
    }
}
