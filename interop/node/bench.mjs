// The Node side of the benchmarks: a Worker that says when each job's handler started, or a Queue that
// adds jobs and says when.
//
//   node bench.mjs -role worker|producer -redis HOST:PORT -queue latency
//
// Lines in: {"clock":n} is answered at once with {"clock":n,"at":ms}, so that the reader can tell how far
// the two clocks are apart; to a producer, {"add":[delay, delay, …],"every":ms} adds a job for each delay
// (ms, 0 for none), so many ms apart. Lines out: {"event":"ready"}; {"id","at"} for each job that starts;
// {"id","begun","returned","due"} for each that was added. Times are ms since 1970 with fractions.

import { setTimeout as sleep } from 'node:timers/promises';

import { Queue, Worker } from 'bullmq';

import { connectionOptions, readFlags } from './flags.mjs';
import { leave, readLines, writeLine } from './lines.mjs';

const now = () => performance.timeOrigin + performance.now();

const flags = readFlags({ role: 'worker', redis: '127.0.0.1:6379', prefix: 'bull', queue: 'latency' });
const options = { connection: connectionOptions(flags.redis), prefix: flags.prefix };
const party = flags.role === 'worker' ? new Worker(flags.queue, started, options) : new Queue(flags.queue, options);
party.on('error', error => process.stderr.write(`${error.stack}\n`));
await party.waitUntilReady();
writeLine({ event: 'ready' });
for await (const line of readLines()) {
  if (line.clock !== undefined) {
    writeLine({ clock: line.clock, at: now() });
  } else {
    await add(line.add, line.every);
  }
}
await party.close();
leave();

async function started(job) {
  const at = now();
  writeLine({ id: job.id, at });
}

async function add(delays, every) {
  const added = [];
  for (const delay of delays) {
    const begun = now();
    const job = await party.add('ping', {}, { removeOnComplete: true, ...(delay > 0 ? { delay } : {}) });
    added.push({ id: job.id, begun, returned: now(), due: job.timestamp + delay });
    if (every > 0) {
      await sleep(every);
    }
  }
  added.forEach(writeLine);
}
