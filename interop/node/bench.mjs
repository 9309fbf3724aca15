// The Node side of the benchmark. It plays the parts described in bench/contender with the same arguments and
// messages.
//
//   node bench.mjs -part add|bulk|process|events|worker|producer -redis HOST:PORT -count N -warm N -concurrency N

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { Queue, QueueEvents, Worker } from 'bullmq';

import { connectionOptions, readFlags } from './flags.mjs';
import { leave, readLines, writeLine } from './lines.mjs';

const measuredQueue = 'bench';
const warmQueue = 'warm';
const jobName = 'greet';
const jobData = { to: 'ada@example.org', number: 4711 };

const flags = readFlags({ part: '', redis: '127.0.0.1:6379', count: 0, warm: 0, concurrency: 1 });
const connection = connectionOptions(flags.redis);
const lines = readLines();
const parts = { add: () => produce(addEach), bulk: () => produce(addBulks), process: runJobs, events: readEvents, worker, producer };
await parts[flags.part]();
leave();

/** Does the work when instructed, reports its cost, and waits for the end of the input. */
async function measure(work) {
  writeLine({ ready: true });
  await lines.next();
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await work();
  const seconds = (performance.now() - begun) / 1000;
  const used = process.cpuUsage(cpu);
  writeLine({ seconds, cpuSeconds: (used.user + used.system) / 1e6 });
  await lines.next();
}

function open(Class, ...rest) {
  const party = new Class(...rest);
  party.on('error', error => process.stderr.write(`${error.stack}\n`));
  return party.waitUntilReady().then(() => party);
}

async function produce(add) {
  const warm = await open(Queue, warmQueue, { connection });
  const queue = await open(Queue, measuredQueue, { connection });
  await add(warm, flags.warm, flags.concurrency);
  await measure(() => add(queue, flags.count, flags.concurrency));
}

/** Adds jobs one by one with the given number of calls in flight. */
async function addEach(queue, jobs, concurrency) {
  let begun = 0;
  const adding = async () => {
    while (begun++ < jobs) {
      await queue.add(jobName, jobData);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, adding));
}

async function addBulks(queue, jobs, size) {
  for (let added = 0; added < jobs; added += size) {
    await queue.addBulk(Array.from({ length: size }, () => ({ name: jobName, data: jobData })));
  }
}

async function runJobs() {
  await runAll(warmQueue, flags.warm, work => work());
  await runAll(measuredQueue, flags.count, measure);
}

/** Runs the jobs of a queue, measured from the start of the worker until the last job is done. */
async function runAll(name, jobs, measured) {
  let handled = 0;
  let allHandled;
  const all = new Promise(resolve => (allHandled = resolve));
  const handle = async () => {
    if (++handled === jobs) {
      allHandled();
    }
  };
  const worker = await open(Worker, name, handle, { connection, concurrency: flags.concurrency, autorun: false });
  const active = connect(connection);
  await measured(async () => {
    worker.run();
    await all;
    await untilEmpty(active, `bull:${name}:active`);
  });
  active.destroy();
  await worker.close();
}

/** Polls the length of a list until it is 0. */
async function untilEmpty(socket, key) {
  for (;;) {
    const reply = new Promise(resolve => socket.once('data', resolve));
    socket.write(`LLEN ${key}\r\n`);
    if (`${await reply}` === ':0\r\n') {
      return;
    }
    await sleep(1);
  }
}

async function readEvents() {
  await readAll(warmQueue, flags.warm, work => work());
  await readAll(measuredQueue, flags.count, measure);
}

async function readAll(name, count, measured) {
  const events = await open(QueueEvents, name, { connection, lastEventId: '0-0', autorun: false });
  let left = count;
  let allRead;
  const all = new Promise(resolve => (allRead = resolve));
  for (const event of ['added', 'waiting', 'active', 'completed']) {
    events.on(event, ({ jobId }) => {
      if (!jobId) {
        throw new Error(`event ${event} has no job`);
      }
      if (--left === 0) {
        allRead();
      }
    });
  }
  await measured(() => {
    events.run();
    return all;
  });
  await events.close();
}

function now() {
  return performance.timeOrigin + performance.now();
}

async function worker() {
  const started = async job => {
    const at = now();
    writeLine({ id: job.id, at });
  };
  const party = await open(Worker, measuredQueue, started, { connection });
  await eachInstruction(() => {});
  await party.close();
}

async function producer() {
  const queue = await open(Queue, measuredQueue, { connection });
  await eachInstruction(async ({ add, every }) => {
    const added = [];
    for (const delay of add) {
      const begun = now();
      const job = await queue.add(jobName, jobData, delay > 0 ? { delay } : undefined);
      added.push({ id: job.id, begun, returned: now(), due: job.timestamp + delay });
      if (every > 0) {
        await sleep(every);
      }
    }
    added.forEach(writeLine);
  });
  await queue.close();
}

async function eachInstruction(carryOut) {
  writeLine({ ready: true });
  for await (const line of lines) {
    if (line.clock !== undefined) {
      writeLine({ clock: line.clock, at: now() });
    } else {
      await carryOut(line);
    }
  }
}
