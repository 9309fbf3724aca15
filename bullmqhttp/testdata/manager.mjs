// Adds jobs to the first queue, whose jobs a Manager gives to workers, and writes how they end. Works on the second queue, to which a
// Manager adds jobs. A job with hold waits until its progress is "go". Writes the state and the fields of the jobs of both queues.
//
//   REDIS_PORT=6379 node manager.mjs managed worked

import { Job, Queue, QueueEvents, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const [managed, worked] = process.argv.slice(2);
const say = line => console.log(JSON.stringify(line));

const show = async (queue, id) => {
  const job = await Job.fromId(queue, id);
  const { name, data, returnvalue, failedReason, attemptsMade, progress, processedBy } = job;
  return { state: await job.getState(), name, data, returnvalue, failedReason, attemptsMade, progress, processedBy };
};

const queue = new Queue(managed, { connection });
const events = new QueueEvents(managed, { connection });
await events.waitUntilReady();
const ended = {};
const added = [];
for (const [name, opts] of [['ok', {}], ['again', { attempts: 2, backoff: { type: 'fixed', delay: 20 } }], ['bad', { attempts: 5 }], ['later', { delay: 50 }], ['first', { priority: 1 }]]) {
  added.push(await queue.add(name, { name, text: 'ä<&>' }, { ...opts, jobId: `node-${name}` }));
}
say({ added: added.map(job => job.id) });
for (const job of added) {
  ended[job.name] = await job.waitUntilFinished(events).catch(error => `failed: ${error.message}`);
}
say({ ended });
const shown = {};
for (const job of added) shown[job.name] = await show(queue, job.id);
say({ shown });

const other = new Queue(worked, { connection });
const worker = new Worker(worked, async job => {
  while (job.data.hold && (await Job.fromId(other, job.id)).progress !== 'go') await new Promise(resolve => setTimeout(resolve, 10));
  if (job.data.bad) throw new Error('no toner');
  return { by: 'node', n: job.data.n };
}, { connection, concurrency: 10, name: 'node-worker', stalledInterval: 100 });
worker.on('error', error => console.error(error));

process.once('SIGTERM', () => Promise.all([worker.close(), queue.close(), other.close(), events.close()]));
