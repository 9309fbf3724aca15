// Adds two jobs to a queue, and writes what a producer in Node sees of their ends.
//
//   REDIS_PORT=6379 node producer.mjs orders

import { Queue, QueueEvents } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const name = process.argv[2];
const queue = new Queue(name, { connection });
// From the beginning: QueueEvents may ask for new events only after the first job has ended.
const events = new QueueEvents(name, { connection, lastEventId: '0' });
await events.waitUntilReady();

const ends = {};
for (const kind of ['good', 'bad']) {
  const added = await queue.add(kind, { n: 1 }, { attempts: 3 });
  const outcome = await added.waitUntilFinished(events).catch((error) => error.message);
  const job = await queue.getJob(added.id);
  ends[kind] = {
    outcome, state: await job.getState(), returnvalue: job.returnvalue, failedReason: job.failedReason, attemptsMade: job.attemptsMade, progress: job.progress,
  };
}
console.log(JSON.stringify(ends));
await Promise.all([queue.close(), events.close()]);
