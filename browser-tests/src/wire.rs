//! The protocol of the browser: questions and answers as JSON over a WebSocket.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{json, Value};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

/// How long the browser may take for one answer; only one that hangs does.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Why the browser cannot be spoken to.
pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A connection to the browser, and to its one page.
pub(crate) struct Wire {
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: Option<String>,
    last: u64,
    /// What went wrong in the page by itself: exceptions that nobody caught, errors that it logged.
    pub(crate) troubles: Vec<String>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Wire {
    /// Connects to the browser and attaches to its page.
    pub(crate) fn connect(address: &str) -> Result<Self, Problem> {
        let (socket, _) = tungstenite::connect(address)?;
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        }
        let mut wire = Self { socket, session: None, last: 0, troubles: Vec::new() };
        let made = wire.ask("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = wire.ask("Target.attachToTarget", attach)?;
        wire.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime"] {
            wire.ask(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(wire)
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Result<Value, Problem> {
        self.last += 1;
        let mut question = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            question["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(question.to_string()))?;
        loop {
            let read = match self.socket.read() {
                // A stopped process was continued: what comes is still to be read.
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {
                    continue;
                }
                read => read?,
            };
            let Message::Text(text) = read else { continue };
            let mut said: Value = serde_json::from_str(&text)?;
            if said["id"] == self.last {
                if let Some(error) = said.get("error") {
                    return Err(format!("{method}: {error}").into());
                }
                return Ok(said["result"].take());
            }
            self.note(&said);
        }
    }

    fn note(&mut self, said: &Value) {
        let parameters = &said["params"];
        let trouble = match said["method"].as_str() {
            Some("Runtime.exceptionThrown") => parameters["exceptionDetails"].to_string(),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                parameters["args"].to_string()
            }
            _ => return,
        };
        self.troubles.push(trouble);
    }
}
