// pg-boss: batches of 1,000, fetching again at once while batches come back full, LISTEN/NOTIFY on,
// finished jobs kept in its own table (its default).
import { args, inBatches, numbers, ran, require, serve, url } from "./agent.mjs";

const { PgBoss } = require("pg-boss");

const BATCH = 1_000;
const ENQUEUE_BATCH = 10_000;
const QUEUE = "bench";

let boss;

async function start() {
  boss = new PgBoss({ connectionString: url, max: 20, useListenNotify: true });
  boss.on("error", (error) => console.error(error));
  await boss.start();
}

await serve({
  open: start,
  async setup() {
    await start();
    await boss.createQueue(QUEUE, { notify: true });
  },
  async enqueueOne(n) {
    await boss.send(QUEUE, args(n));
  },
  async enqueueMany(first, count) {
    await inBatches(first, count, ENQUEUE_BATCH, async (from, end) => {
      await boss.insert(QUEUE, numbers(from, end).map((n) => ({ data: args(n) })));
    });
  },
  async work() {
    const options = {
      batchSize: BATCH,
      burstWhenBatchFull: true,
      localConcurrency: 2,
      pollingIntervalSeconds: 0.5,
    };
    await boss.work(QUEUE, options, async (jobs) => {
      for (const job of jobs) ran(job.data.n);
    });
  },
  async stop() {
    await boss?.stop({ graceful: false, close: true });
  },
});
