//! Why a collector could not be asked, in few words: no address, and nothing of a request.

use crate::plain::Plain;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};

/// Longest text of somebody else that is told, characters.
const LONGEST: usize = 200;

/// What is behind an error.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    loop {
        if let Some(words) = known(last) {
            return words;
        }
        match last.source() {
            Some(source) => last = source,
            None => return plain(last),
        }
    }
}

/// What one error of a chain says, where it is one that says enough.
fn known(error: &(dyn Error + 'static)) -> Option<String> {
    // Whoever connects tells of a name that nobody knows by these words alone.
    if error.to_string() == "dns error" {
        return Some("unknown host".to_owned());
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(of_tls(tls));
    }
    let error = error.downcast_ref::<io::Error>()?;
    // What it holds is not among its sources.
    if let Some(words) = error.get_ref().and_then(|inner| known(inner)) {
        return Some(words);
    }
    let words = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => "the connection was broken off",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "no way to the host",
        ErrorKind::TimedOut => "no answer in time",
        _ => return None,
    };
    Some(words.to_owned())
}

fn of_tls(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "TLS: unknown issuer of the certificate".to_owned()
        }
        other => format!("TLS: {}", plain(other)),
    }
}

fn plain(error: &(dyn Error + 'static)) -> String {
    let mut words = Plain(String::new());
    // A text takes whatever is written.
    let _ = write!(words, "{error}");
    words.0.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_and_nothing_that_is_long_or_breaks_a_line() {
        let io = |kind| io::Error::new(kind, "http://secret/");
        assert_eq!(
            words(&io(ErrorKind::ConnectionRefused)),
            "connection refused"
        );
        let issuer = rustls::CertificateError::UnknownIssuer;
        let tls = io::Error::other(rustls::Error::InvalidCertificate(issuer));
        assert_eq!(words(&tls), "TLS: unknown issuer of the certificate");
        let long = io::Error::other(format!("a\n{}", "b".repeat(1_000)));
        assert_eq!(words(&long), format!("a\\n{}", "b".repeat(197)));
    }
}
