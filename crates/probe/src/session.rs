//! Where a session falls among the shares of a canary.

/// FNV-1a, 64 bits: offset basis and prime (RFC 9923).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A session's place in `0.0 .. 1.0` under `epoch`: it belongs to a share when its point is below it, so
/// while an epoch lasts and shares rise a session moves at most once.
///
/// The same on every machine and in every version: FNV-1a over the session's bytes and the epoch's eight
/// little-endian bytes, mixed by the finaliser of `MurmurHash3` (fmix64), of which the top 53 bits are the
/// fraction. Not meant to withstand sessions chosen to collide.
///
/// ```
/// # use evenkeel_probe::session_point;
/// let point = session_point("user-42", 7);
/// assert_eq!(point, session_point("user-42", 7));
/// assert_ne!(point, session_point("user-42", 8));
/// ```
pub fn session_point(session: &str, epoch: u64) -> f64 {
    let bytes = session.bytes().chain(epoch.to_le_bytes());
    let hash = bytes.fold(FNV_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    fraction(mix(hash))
}

/// fmix64: every input bit changes every output bit with probability near one half.
const fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[expect(clippy::cast_precision_loss, reason = "53 bits are exact as f64")]
fn fraction(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
