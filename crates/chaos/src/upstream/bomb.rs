//! A small body that unpacks to a large one.

use crate::document::Document;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Bytes of one piece before packing.
const PIECE: usize = 1_024 * 1_024;
/// Pieces of the whole: 256 MiB.
const PIECES: u32 = 256;
/// A gzip header without name, time or flags.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty last block of a deflate stream.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A reply that unpacks to 256 MiB.
pub(super) fn document() -> Document {
    let mut bomb = Document::answer(gzip());
    bomb.headers.push(("content-encoding", "gzip".to_owned()));
    bomb
}

/// A gzip file of 256 MiB of blanks, about 260 kB long. A fully flushed piece
/// refers to nothing before it, so one packed piece serves for all.
fn gzip() -> Vec<u8> {
    let blanks = vec![b' '; PIECE];
    let mut small = Vec::with_capacity(64 * 1_024);
    let mut deflate = Compress::new(Compression::best(), false);
    let status = deflate.compress_vec(&blanks, &mut small, FlushCompress::Full);
    debug_assert!(matches!(status, Ok(Status::Ok)), "{status:?}");
    let mut piece = Crc::new();
    piece.update(&blanks);
    let mut whole = Crc::new();
    let mut file = HEADER.to_vec();
    for _ in 0..PIECES {
        file.extend_from_slice(&small);
        whole.combine(&piece);
    }
    file.extend_from_slice(&LAST_BLOCK);
    file.extend_from_slice(&whole.sum().to_le_bytes());
    file.extend_from_slice(&whole.amount().to_le_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn it_is_small_and_unpacks_to_blanks() {
        let file = gzip();
        assert!(file.len() < 400_000, "{}", file.len());
        let mut start = vec![0; 3 * PIECE];
        let mut unpacked = flate2::read::GzDecoder::new(&*file);
        unpacked.read_exact(&mut start).unwrap();
        assert!(start.iter().all(|b| *b == b' '));
    }
}
