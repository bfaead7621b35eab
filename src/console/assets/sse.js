// Server-sent events from pieces of text: a piece may end anywhere, within a line, between CR and LF.

/** The longest message that is kept; longer ones are dropped, so that a broken stream cannot fill memory. */
const MESSAGE_MAX = 8_000_000;

/** Reads messages from a stream that comes in pieces. */
export class EventReader {
  #onMessage;
  #rest = "";
  #fresh = () => ({ event: "message", data: [], id: null, size: 0 });
  #message = this.#fresh();
  #endedByCr = false;

  /** `onMessage` gets each message as `{ event, data, id }`. */
  constructor(onMessage) {
    this.#onMessage = onMessage;
  }

  /** Takes the next piece. */
  push(piece) {
    let text = piece;
    // A line feed after a carriage return at the end of the last piece belongs to that line.
    if (this.#endedByCr && text.startsWith("\n")) text = text.slice(1);
    if (piece !== "") this.#endedByCr = piece.endsWith("\r");
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") return this.#end();
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "event") this.#message.event = value;
    if (field === "id") this.#message.id = value;
    if (field === "data") {
      this.#message.size += value.length;
      if (this.#message.size <= MESSAGE_MAX) this.#message.data.push(value);
    }
  }

  #end() {
    const { event, data, id, size } = this.#message;
    this.#message = this.#fresh();
    if ((data.length > 0 || id !== null) && size <= MESSAGE_MAX) this.#onMessage({ event, data: data.join("\n"), id });
  }
}
