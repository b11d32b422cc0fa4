//! ClientHellos made by hand: what no client at hand sends, but some client somewhere does.

/// A ClientHello to be.
#[derive(Clone)]
pub struct Hello {
    /// What the record and the message say: 0x0301 is TLS 1.0.
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<u8>,
}

const TLS12: u16 = 0x0303;

impl Hello {
    /// A TLS 1.2 client without a server name.
    pub fn nameless() -> Self {
        Self { version: TLS12, ciphers: vec![0xc02f, 0xc013, 0x002f], extensions: Vec::new() }
    }

    /// A TLS 1.2 client that asks for this server.
    pub fn to(name: &str) -> Self {
        Self::nameless().with_name(name)
    }

    /// Of a client whose newest version is this one, before TLS 1.3.
    pub fn version(mut self, version: u16) -> Self {
        self.version = version;
        self
    }

    /// Of a client that knows TLS 1.3.
    pub fn tls13(mut self) -> Self {
        self.ciphers.insert(0, 0x1301);
        let key_share = [&[0, 36, 0, 29, 0, 32][..], &[9; 32]].concat();
        self.extension(43, &[4, 3, 4, 3, 3]).extension(51, &key_share).extension(10, &[0, 2, 0, 29])
    }

    pub fn with_name(self, name: &str) -> Self {
        let length = name.len() as u16;
        let list = [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name.as_bytes()].concat();
        self.extension(0, &list)
    }

    /// Values that mean nothing, wherever a server must pass over what it does not know.
    pub fn grease(mut self) -> Self {
        self.ciphers.insert(0, 0x1a1a);
        let tail = std::mem::take(&mut self.extensions);
        self = self.extension(0x2a2a, &[]);
        self.extensions.extend(tail);
        self.extension(0x3a3a, &[0])
    }

    /// An encrypted inner hello; the name in the open is the outer one.
    pub fn encrypted_inner(self) -> Self {
        // Outer, HKDF-SHA256, AES-128-GCM, config 7, a key of 32 bytes, a payload of 144.
        let head = [&[0, 0, 1, 0, 1, 7, 0, 32][..], &[5; 32], &[0, 144], &[6; 144]].concat();
        self.extension(0xfe0d, &head)
    }

    /// Filled up with the padding extension to about this size.
    pub fn padded(self, size: usize) -> Self {
        let missing = size.saturating_sub(self.message().len() + 4);
        self.extension(21, &vec![0; missing])
    }

    fn extension(mut self, kind: u16, content: &[u8]) -> Self {
        self.extensions.extend(kind.to_be_bytes());
        self.extensions.extend((content.len() as u16).to_be_bytes());
        self.extensions.extend(content);
        self
    }

    fn message(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.push(0);
        body.extend((self.ciphers.len() as u16 * 2).to_be_bytes());
        body.extend(self.ciphers.iter().flat_map(|cipher| cipher.to_be_bytes()));
        body.extend([1, 0]);
        if !self.extensions.is_empty() {
            body.extend((self.extensions.len() as u16).to_be_bytes());
            body.extend(&self.extensions);
        }
        let length = (body.len() as u32).to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    /// In one record, or as few as it takes.
    pub fn bytes(&self) -> Vec<u8> {
        self.in_records(1 << 14)
    }

    /// In records of at most this size.
    pub fn in_records(&self, size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for fragment in self.message().chunks(size) {
            // The first record of a client that knows more still says TLS 1.0.
            bytes.extend([22, 3, 1]);
            bytes.extend((fragment.len() as u16).to_be_bytes());
            bytes.extend(fragment);
        }
        bytes
    }
}
