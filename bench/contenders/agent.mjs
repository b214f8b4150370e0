// The contender's side of the protocol, for Node: the twin of agent.py. One JSON command per line
// in, one JSON answer per line out. process.hrtime and Python's time.monotonic read one clock.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

export const require = createRequire(process.env.BENCH_NODE);
export const url = process.env.BENCH_URL;
export const now = () => Number(process.hrtime.bigint()) / 1e9;
export const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

const PAD = "x".repeat(30);
export const args = (n) => ({ n, pad: PAD });

// Calls visit(first, end) over a range cut into batches.
export async function inBatches(first, count, size, visit) {
  for (let at = first; at < first + count; at += size) {
    await visit(at, Math.min(at + size, first + count));
  }
}

export const numbers = (first, end) => Array.from({ length: end - first }, (_, i) => first + i);

export const tally = { done: 0, first: null, starts: null };

export function ran(n) {
  if (tally.first === null) tally.first = now();
  if (tally.starts !== null) tally.starts.push([n, now()]);
  tally.done += 1;
}

async function pace(agent, { count, gap, batch = 1 }) {
  const sent = [];
  const began = now();
  for (let i = 0; i < count; i += 1) {
    const pause = batch === 1 ? gap * (0.5 + Math.random()) : began + i * gap - now();
    await sleep(Math.max(0, pause));
    sent.push(now());
    if (batch === 1) await agent.enqueueOne(i);
    else await agent.enqueueMany(i * batch, batch);
  }
  return { sent };
}

async function timed(work) {
  const began = now();
  await work();
  return { seconds: now() - began };
}

async function answer(agent, ask) {
  switch (ask.do) {
    case "setup":
      return await agent.setup();
    case "open":
      return await agent.open();
    case "single":
      return await timed(async () => {
        for (let n = 0; n < ask.count; n += 1) await agent.enqueueOne(n);
      });
    case "bulk":
      return await timed(() => agent.enqueueMany(ask.first ?? 0, ask.count));
    case "pace":
      return await pace(agent, ask);
    case "work":
      tally.starts = ask.record ? [] : null;
      return await agent.work();
    case "report": {
      const brief = { done: tally.done, first: tally.first };
      return ask.full ? { ...brief, starts: tally.starts ?? [], claims: [] } : brief;
    }
    case "stop":
      return await agent.stop();
    default:
      throw new Error(`unknown command ${ask.do}`);
  }
}

export async function serve(agent) {
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    try {
      say({ ok: true, ...(await answer(agent, ask)) });
    } catch (error) {
      console.error(error);
      say({ ok: false, error: String(error) });
    }
    if (ask.do === "stop") break;
  }
  process.exit(0);
}
