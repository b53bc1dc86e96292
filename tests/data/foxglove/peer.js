/* Connects as Foxglove does, with its own package (@foxglove/ws-protocol), subscribes to everything and prints what the
 * first message of each channel says. usage: peer.js ADDRESS SUBPROTOCOL CHANNELS */
const { FoxgloveClient } = require("@foxglove/ws-protocol");
const { WebSocket } = require("ws");

const [address, protocol, wanted] = process.argv.slice(2);
const channels = new Map(), topics = new Map(), seen = {};
const client = new FoxgloveClient({ ws: new WebSocket(address, [protocol]) });
client.on("error", e => { console.error(String(e)); process.exit(1); });
client.on("serverInfo", info => { seen.server = info.name; });
client.on("advertise", list => {
  for (const c of list) {
    channels.set(c.id, c);
    if (c.encoding === "json")
      JSON.parse(c.schema);
    topics.set(client.subscribe(c.id), c);
  }
});
client.on("message", m => {
  const c = topics.get(m.subscriptionId);
  if (!c || seen[c.topic])
    return;
  const bytes = Buffer.from(m.data.buffer, m.data.byteOffset, m.data.byteLength);
  seen[c.topic] = { schema: c.schemaName, time: Number(m.timestamp) / 1e9, data: c.encoding === "json" ? JSON.parse(bytes) : bytes.toString("base64") };
  if (Object.keys(seen).length === Number(wanted) + 1) {
    console.log(JSON.stringify(seen));
    client.close();
    process.exit(0);
  }
});
setTimeout(() => { console.error("only " + JSON.stringify(Object.keys(seen))); process.exit(1); }, 40000);
