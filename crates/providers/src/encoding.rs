//! Content encodings. None is asked for; what comes anyway is undone.

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use std::io::{self, Write};

/// Compressed bytes are taken in pieces of this size, so that one piece
/// (which deflate can blow up about a thousandfold) stays small.
const PIECE_BYTES: usize = 1024;

/// Undoes a content encoding, piece by piece.
pub(crate) enum Decoding {
    /// Nothing to undo.
    Identity,
    /// `gzip`, in one member or several (RFC 1952, section 2.2).
    Gzip(Box<MultiGzDecoder<Bounded>>),
    /// `deflate`, which in HTTP means zlib.
    Zlib(Box<ZlibDecoder<Bounded>>),
}

/// What cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodingError {
    #[error("the answer is encoded as `{0}`, which was not asked for")]
    Unknown(String),
    #[error("the answer grows beyond the limit of {0} bytes when decompressed")]
    TooLarge(usize),
    #[error("the answer's compression is broken: {0}")]
    Broken(#[source] io::Error),
}

/// A buffer that refuses to grow beyond its limit.
#[derive(Debug)]
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    overflowed: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.overflowed = true;
            return Err(io::Error::other("too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoding {
    /// The decoding that `headers` ask for, whose output waiting to be taken
    /// never exceeds `limit` bytes.
    pub(crate) fn of(headers: &HeaderMap, limit: usize) -> Result<Self, DecodingError> {
        let out = Bounded {
            bytes: Vec::new(),
            limit,
            overflowed: false,
        };
        let Some(value) = headers.get(CONTENT_ENCODING) else {
            return Ok(Self::Identity);
        };
        let name = String::from_utf8_lossy(value.as_bytes())
            .trim()
            .to_ascii_lowercase();
        match name.as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(out)))),
            "deflate" => Ok(Self::Zlib(Box::new(ZlibDecoder::new(out)))),
            _ => Err(DecodingError::Unknown(name.chars().take(32).collect())),
        }
    }

    /// Decodes `bytes` and hands what they give to `take`, which may end it by
    /// returning false.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), DecodingError> {
        if matches!(self, Self::Identity) {
            take(bytes);
            return Ok(());
        }
        for piece in bytes.chunks(PIECE_BYTES) {
            let written = match self {
                Self::Identity => Ok(()),
                Self::Gzip(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
                Self::Zlib(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            };
            let Some(out) = self.out() else { break };
            if out.overflowed {
                return Err(DecodingError::TooLarge(out.limit));
            }
            let decoded = std::mem::take(&mut out.bytes);
            written.map_err(DecodingError::Broken)?;
            if !decoded.is_empty() && !take(&decoded) {
                break;
            }
        }
        Ok(())
    }

    fn out(&mut self) -> Option<&mut Bounded> {
        match self {
            Self::Identity => None,
            Self::Gzip(decoder) => Some(decoder.get_mut()),
            Self::Zlib(decoder) => Some(decoder.get_mut()),
        }
    }
}
