// graphile-worker with its batching: concurrency 100, a local queue of 2,000, completions batched
// with no added delay. It keeps no history: a finished job is deleted.
import { args, inBatches, numbers, ran, require, serve, url } from "./agent.mjs";

const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const ENQUEUE_BATCH = 10_000;
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const preset = {
  worker: {
    connectionString: url,
    concurrentJobs: 100,
    maxPoolSize: 20,
    localQueue: { size: 2000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  },
};

let utils;
let runner;

await serve({
  async open() {
    utils = await makeWorkerUtils({ preset });
  },
  async setup() {
    await this.open();
    await utils.migrate();
  },
  async enqueueOne(n) {
    await utils.addJob("noop", args(n));
  },
  async enqueueMany(first, count) {
    await inBatches(first, count, ENQUEUE_BATCH, async (from, end) => {
      await utils.addJobs(
        numbers(from, end).map((n) => ({ identifier: "noop", payload: args(n) })),
      );
    });
  },
  async work() {
    const taskList = { noop: async (payload) => ran(payload.n) };
    runner = await run({ preset: { worker: { ...preset.worker } }, taskList, noHandleSignals: true });
  },
  async stop() {
    await runner?.stop();
    await utils?.release();
  },
});
