// Runs the jobs of the first queue, and adds one to the second queue, whose worker is in Go. Writes the result of that job.
//
//   REDIS_PORT=6379 node post.mjs orders other

import { Queue, QueueEvents, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const [served, other] = process.argv.slice(2);

const worker = new Worker(served, async job => {
  if (!job.data.paid) throw new Error('the order is not paid');
  return { status: job.data.items.length, name: job.name, http: Object.keys(job.opts.http ?? {}), attempts: job.opts.attempts };
}, { connection });

const queue = new Queue(other, { connection });
const events = new QueueEvents(other, { connection });
await events.waitUntilReady();
const job = await queue.add('bill', { id: 'node', paid: true }, { jobId: 'order-node' });
console.log(JSON.stringify(await job.waitUntilFinished(events)));

process.once('SIGTERM', () => Promise.all([worker.close(), queue.close(), events.close()]));
