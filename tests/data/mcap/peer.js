// An independent implementation of MCAP (npm @mcap/core) against ours.
// usage: node peer.js write plain|zstd|unchunked FILE   the messages of mcap_tool
//        node peer.js read FILE                         its messages by index and by stream, which must agree
const fs = require("fs");
const { McapWriter, McapIndexedReader, McapStreamReader } = require("@mcap/core");
const zstd = require("@foxglove/wasm-zstd");

class Out {
  constructor(path) { this.fd = fs.openSync(path, "w"); this.at = 0n; }
  async write(data) { fs.writeSync(this.fd, data); this.at += BigInt(data.length); }
  position() { return this.at; }
}

class In {
  constructor(path) { this.data = fs.readFileSync(path); }
  async size() { return BigInt(this.data.length); }
  async read(offset, length) {
    return new Uint8Array(this.data.subarray(Number(offset), Number(offset + length)));
  }
}

const decompressHandlers = { zstd: (data, size) => zstd.decompress(data, Number(size)) };

async function write(how, path) {
  const writer = new McapWriter({
    writable: new Out(path), chunkSize: 4096, useChunks: how !== "unchunked",
    compressChunk: how === "zstd"
      ? (data) => ({ compression: "zstd", compressedData: zstd.compress(data, 3) }) : undefined,
  });
  await writer.start({ profile: "x-test", library: "peer" });
  const channels = [];
  for (const name of ["a", "b"]) {
    const schemaId = await writer.registerSchema({ name, encoding: "jsonschema", data: Buffer.from("{}") });
    channels.push(await writer.registerChannel(
      { schemaId, topic: "/" + name, messageEncoding: "json", metadata: new Map([["k", "v"]]) }));
  }
  await writer.addMetadata({ name: "m", metadata: new Map([["a", "b"]]) });
  for (let i = 0; i < 500; i++) {
    const logTime = 1000000000n + BigInt(i) * 10000000n;
    await writer.addMessage({ channelId: channels[i % 2], sequence: i, logTime, publishTime: logTime + 1n,
      data: Buffer.from(`{"i":${i}}`) });
  }
  await writer.addAttachment({ name: "f", logTime: 1n, createTime: 1n, mediaType: "text/plain",
    data: Buffer.from("text") });
  await writer.end();
}

const line = (channel, schema, m) => `${channel.topic} ${schema.name} ${m.sequence} ${m.logTime} ${m.publishTime} ` +
  Buffer.from(m.data).toString();

async function readByIndex(path) {
  const reader = await McapIndexedReader.Initialize({ readable: new In(path), decompressHandlers });
  const lines = [];
  for await (const m of reader.readMessages({ validateCrcs: true })) {
    const channel = reader.channelsById.get(m.channelId);
    lines.push(line(channel, reader.schemasById.get(channel.schemaId), m));
  }
  const counted = [...reader.statistics.channelMessageCounts.values()].reduce((a, b) => a + b, 0n);
  if (counted !== reader.statistics.messageCount || reader.summaryOffsetsByOpcode.size === 0)
    throw new Error("statistics or summary offsets are wrong");
  lines.push(`indexed ${reader.statistics.messageCount}`);
  return lines;
}

function readByStream(path) {
  const reader = new McapStreamReader({ decompressHandlers, validateCrcs: true });
  const channels = new Map(), schemas = new Map(), lines = [];
  reader.append(fs.readFileSync(path));
  for (let r; (r = reader.nextRecord());) {
    if (r.type === "Schema") schemas.set(r.id, r);
    if (r.type === "Channel") channels.set(r.id, r);
    if (r.type === "Message") {
      const channel = channels.get(r.channelId);
      lines.push(line(channel, schemas.get(channel.schemaId), r));
    }
  }
  if (!reader.done()) throw new Error("the stream does not end");
  return lines;
}

async function main([command, ...rest]) {
  await zstd.isLoaded;
  if (command === "write") return write(...rest);
  const byIndex = await readByIndex(rest[0]), byStream = readByStream(rest[0]);
  if (byIndex.slice(0, -1).join("\n") !== byStream.join("\n")) throw new Error("index and stream differ");
  process.stdout.write(byIndex.join("\n") + "\n");
}

main(process.argv.slice(2)).catch((e) => { console.error(e); process.exit(1); });
