// What a page does with its server, each step in the way that pages do it; what was found is posted at the end.
const steps = {
  async requests() {
    const answers = Array.from({ length: 50 }, async (_, number) => (await fetch(`/echo?${number}`)).text());
    return (await Promise.all(answers)).filter((text, number) => text.startsWith(`?${number} `)).length;
  },
  async upload() {
    const body = new Uint8Array(4 << 20).fill(7);
    return (await fetch("/echo", { method: "POST", body })).text();
  },
  // The server says the next word once the last one has been heard: nobody may hold words back.
  events() {
    return new Promise((done, failed) => {
      const heard = [];
      const source = new EventSource("/events");
      source.onerror = () => failed("events broke off");
      source.onmessage = async (event) => {
        heard.push(event.data);
        if (heard.length < 5) return fetch("/next", { method: "POST" });
        source.close();
        done(heard.join(" "));
      };
    });
  },
  webSocket() {
    return new Promise((done, failed) => {
      const socket = new WebSocket(`wss://${location.host}/ws`);
      const large = new Uint8Array(1 << 20).fill(9);
      const heard = [];
      socket.binaryType = "arraybuffer";
      socket.onerror = () => failed("the WebSocket broke off");
      socket.onopen = () => ["grüße", large].forEach((message) => socket.send(message));
      socket.onmessage = ({ data }) => {
        heard.push(typeof data === "string" ? data : data.byteLength);
        if (heard.length === 2) socket.close(1000, "done");
      };
      socket.onclose = ({ code, wasClean }) => done([...heard, code, wasClean].join(" "));
    });
  },
  protocols() {
    const entries = ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type));
    return [...new Set(entries.map((entry) => entry.nextHopProtocol))].join(" ");
  },
};

const found = {};
for (const [name, step] of Object.entries(steps)) {
  found[name] = await Promise.resolve().then(step).catch((error) => `failed: ${error}`);
}
await fetch("/found", { method: "POST", body: JSON.stringify(found) });
