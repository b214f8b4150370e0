// A Sexton worker in plain JavaScript: Node 18 or newer, no packages.
//
//   SERVICE_URL=http://127.0.0.1:8000 SERVICE_KEY=sxn_… node examples/worker.mjs mail other-queue
//
// A task gets the payload and the job. What it returns is the result; what it throws is tried again,
// as the task's policy says. It may run more than once, so give `job.idempotency_key` to others.

const tasks = {
  async echo(payload) {
    return payload;
  },
  async sleep({ seconds }, job) {
    for (let n = 1; n <= seconds * 10; n++) {
      await new Promise((done) => setTimeout(done, 100));
      job.signal.throwIfAborted(); // somebody cancelled it, or the lease is lost
      if (n % 10 === 0) await job.progress({ done: n / 10, of: seconds });
    }
  },
  async fail({ message }) {
    throw new Error(message);
  },
};

const url = process.env.SERVICE_URL ?? "http://127.0.0.1:8000";
const queues = process.argv.length > 2 ? process.argv.slice(2) : ["default"];
const slots = Number(process.env.SLOTS ?? 10);
const lease = Number(process.env.LEASE ?? 30);
const grace = Number(process.env.GRACE ?? 10);
const running = new Map(); // fence → AbortController
let worker, stopping = false, poll, doubt = false;

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

async function call(method, path, body, signal) {
  const headers = { "content-type": "application/json" };
  if (process.env.SERVICE_KEY) headers.authorization = `Bearer ${process.env.SERVICE_KEY}`;
  const answer = await fetch(url + path, { method, headers, signal, body: body && JSON.stringify(body) });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(said.detail ?? answer.statusText), { status: answer.status });
  return said;
}

async function join() {
  worker = await call("POST", "/v1/workers", { name: `node:${process.pid}`, queues, lease });
  console.log(`worker ${worker.id} serves ${queues}`);
}

async function renew() {
  try {
    const { cancel } = await call("POST", `/v1/workers/${worker.id}/renew`, { held: [...running.keys()] });
    for (const { fence } of cancel) running.get(fence)?.abort("cancelled");
  } catch (error) {
    if (error.status !== 404 && error.status !== 409) return console.error(`not renewed: ${error.message}`);
    for (const job of running.values()) job.abort("lost"); // others run them now
    await join();
  }
}

async function settle(owner, result) {
  for (let wait = 0.1; ; wait = Math.min(2 * wait, 10)) {
    try {
      const { results } = await call("POST", `/v1/workers/${owner}/settle`, { results: [result] });
      if (results[0].status === "stale") console.error(`job ${result.id}: stale, somebody else has it`);
      return;
    } catch (error) {
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return console.error(error.message);
      await pause(wait); // the service is away: what was done is not forgotten
    }
  }
}

async function run(job, owner) {
  const abort = new AbortController();
  running.set(job.fence, abort);
  job.signal = abort.signal;
  job.progress = (value) => call("POST", `/v1/jobs/${job.id}/progress`, { fence: job.fence, value }).catch(() => {});
  const said = { id: job.id, fence: job.fence };
  try {
    if (!tasks[job.task]) Object.assign(said, { outcome: "snoozed", retry_after: 30, error: `no task ${job.task} here` });
    else Object.assign(said, { outcome: "succeeded", result: (await tasks[job.task](job.payload, job)) ?? null });
  } catch (error) {
    const outcome = { cancelled: "cancelled", stopping: "released" }[abort.signal.reason] ?? "failed";
    Object.assign(said, { outcome, error: String(error?.stack ?? error).slice(0, 8000) });
  }
  if (abort.signal.reason !== "lost") await settle(owner, said);
  running.delete(job.fence);
}

async function claim() {
  while (!stopping) {
    if (running.size >= slots) { await pause(0.02); continue; }
    try {
      poll = new AbortController();
      const { id } = worker;
      const asked = { limit: slots - running.size, wait: 30 };
      if (doubt) asked.held = [...running.keys()]; // the last answer was lost, perhaps with jobs
      const { jobs, cancel } = await call("POST", `/v1/workers/${id}/claim`, asked, poll.signal);
      doubt = false;
      for (const { fence } of cancel) running.get(fence)?.abort("cancelled");
      for (const job of jobs) run(job, id);
    } catch (error) {
      if (stopping) break;
      if (error.status === 404 || error.status === 409) await renew();
      else { doubt = true; console.error(`waiting for the service: ${error.message}`); await pause(1); }
    }
  }
}

async function stop() {
  stopping = true;
  poll?.abort();
  for (let left = 10 * grace; running.size && left > 0; left--) await pause(0.1);
  for (const job of running.values()) job.abort("stopping");
  await call("DELETE", `/v1/workers/${worker.id}`).catch(() => {}); // what is left goes back untried
  process.exit(0);
}

process.on("SIGTERM", stop);
process.on("SIGINT", stop);
while (!worker) await join().catch((error) => { console.error(error.message); return pause(1); });
setInterval(renew, (lease * 1000) / 3);
await claim();
