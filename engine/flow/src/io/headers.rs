//! Headers that a request cannot choose.

/// Headers that frame a message, name its host or are about its connection: the client sets
/// them. With others the service and what is in front of it could see different requests.
const OF_CLIENT: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
];

/// The begin of headers that are for proxies.
const OF_PROXIES: &str = "proxy-";

/// Why a request may not have a header with this name; nothing if it may.
pub fn header_problem(name: &str) -> Option<String> {
    let lower = name.trim().to_ascii_lowercase();
    let is_own = OF_CLIENT.contains(&&*lower) || lower.starts_with(OF_PROXIES);
    is_own.then(|| {
        format!(
            "the header «{name}» cannot be set: it belongs to the connection, and the client sets it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_connection_are_refused_in_any_case() {
        for name in
            ["Content-Length", "TE", "hOST", "Proxy-Authorization", "proxy-connection", " Upgrade"]
        {
            let problem = header_problem(name).expect(name);
            assert!(problem.contains(name), "{problem}");
        }
        for name in ["Authorization", "X-Host", "Content-Type", "Content-Encoding", "Test"] {
            assert_eq!(header_problem(name), None);
        }
    }
}
