//! The hash of a definition's content, by which it is stored.

use serde_json::Value;

/// FNV-1a with 128 bits over the canonical text: the fields of objects are in the order of their
/// names. It distinguishes contents and is not secure: content stored under a hash is compared.
pub(crate) fn of(value: &Value) -> String {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash ^= u128::from(*byte);
            hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    canonical(value, &mut feed);
    format!("{hash:032x}")
}

fn canonical(value: &Value, feed: &mut impl FnMut(&[u8])) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            feed(b"{");
            for name in names {
                feed(Value::String(name.clone()).to_string().as_bytes());
                feed(b":");
                canonical(&fields[name], feed);
                feed(b",");
            }
            feed(b"}");
        }
        Value::Array(elements) => {
            feed(b"[");
            for element in elements {
                canonical(element, feed);
                feed(b",");
            }
            feed(b"]");
        }
        other => feed(other.to_string().as_bytes()),
    }
}
