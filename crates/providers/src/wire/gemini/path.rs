//! Where a request goes, below the base address.

/// Digits of a percent-encoded byte.
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The path and query of a request to `model`, below a base address such as
/// `https://generativelanguage.googleapis.com/v1beta` or, at Vertex AI,
/// `…/v1/projects/{p}/locations/{l}/publishers/google`.
///
/// A name without a slash stands under `models/`; one with slashes
/// (`tunedModels/…`, `models/…`) is taken as it is. A stream is always asked
/// for as server-sent events.
pub fn path(model: &str, stream: bool) -> String {
    let mut path = String::from(if model.contains('/') { "/" } else { "/models/" });
    for byte in model.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~/@".contains(&byte);
        if plain {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
        }
    }
    path.push_str(if stream {
        ":streamGenerateContent?alt=sse"
    } else {
        ":generateContent"
    });
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_one_path_for_answers_and_one_for_streams() {
        assert_eq!(
            path("fixture-flash", false),
            "/models/fixture-flash:generateContent"
        );
        assert_eq!(
            path("fixture-flash", true),
            "/models/fixture-flash:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            path("tunedModels/mine-1", false),
            "/tunedModels/mine-1:generateContent"
        );
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        assert_eq!(
            path("m?key=x#y z:q", false),
            "/models/m%3Fkey%3Dx%23y%20z%3Aq:generateContent"
        );
    }
}
