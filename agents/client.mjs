// A client made with the official TypeScript SDK: `node client.mjs SDK VERSION PHASE FOLDER SESSION KEY COMMAND…`, run by `clients`.
// Prints what it saw as one JSON object. Every frame passed the SDK's own validators on the way: one that does not ends it.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, version, phase, folder, session, key, ...command] = process.argv.slice(2);
const acp = await import(`${sdk}/dist/v${version}/stable/acp.js`);
const { agent: ask, client: answer } = acp.methods;
const second = version === "2";
const seen = { texts: [], replayed: "", permissions: 0, stops: [], errors: [] };
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let text = "", heard = () => {}, idle = () => {};

const child = spawn(command[0], command.slice(1), { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((done) => child.on("exit", done));
const app = acp.client({ name: "ts-sdk" })
  .onRequest(answer.session.requestPermission, ({ params }) => {
    seen.permissions += 1;
    const option = params.options.find((one) => one.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(answer.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate.endsWith("_message_chunk") && update.content.type === "text") {
      text += update.content.text;
      if (update.sessionUpdate === "agent_message_chunk") heard();
    }
    if (update.sessionUpdate === "state_update" && update.state === "idle") idle(update);
  });
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const agent = connection.agent;

async function say(words, cancels = false) {
  text = "";
  const first = new Promise((done) => { heard = done; });
  const over = new Promise((done) => { idle = done; });
  const asked = agent.request(ask.session.prompt, { sessionId: seen.session, prompt: [{ type: "text", text: words }] });
  if (cancels) {
    await first;
    agent.notify(ask.session.cancel, { sessionId: seen.session });
  }
  const result = await asked;
  seen.stops.push(second ? (await over).stopReason : result.stopReason);
  await pause(300);
  seen.texts.push(text);
}

await agent.request(ask.initialize, second
  ? { protocolVersion: 2, info: { name: "ts-sdk", version: "0" }, capabilities: {} }
  : { protocolVersion: 1, clientInfo: { name: "ts-sdk", version: "0" }, clientCapabilities: {} });
const place = { cwd: folder, mcpServers: [] };
if (phase === "first") {
  seen.session = (await agent.request(ask.session.new, place)).sessionId;
  await say(`Note: my passkey is ${key}.`);
  await say("run: touch made-by-a-client");
  await say("stream: 400", true);
  try {
    await agent.request("_rethread.test/unknown", { x: [1.5, null] });
  } catch (error) {
    seen.errors.push(error.code);
  }
  child.kill("SIGKILL");
} else {
  seen.session = session;
  seen.listed = (await agent.request(ask.session.list, { cwd: folder })).sessions.map((one) => one.sessionId);
  const again = { sessionId: session, ...place };
  if (phase === "resume") await agent.request(ask.session.resume, again);
  else if (second) await agent.request(ask.session.resume, { ...again, replayFrom: { type: "start" } });
  else await agent.request(ask.session.load, again);
  await pause(500);
  seen.replayed = text;
  await say("what was the passkey?");
  child.stdin.end();
}
await ended;
console.log(JSON.stringify(seen));
process.exit(0);
