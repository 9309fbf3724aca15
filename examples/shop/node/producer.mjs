// Adds an order, as the shop's web pages in Node would, and waits for its receipt.
//
//   REDIS_PORT=6379 node producer.mjs '{"number":"A1","email":"ada@example.org","region":"north","cents":4200}'

import { Queue, QueueEvents } from 'bullmq';

const options = {
  connection: { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379), maxRetriesPerRequest: null },
  prefix: process.env.PREFIX ?? 'bull',
};
const queue = new Queue('orders', options);
// Reading starts a minute ago: a job that completes before the first read would otherwise be waited for in vain.
const events = new QueueEvents('orders', { ...options, lastEventId: `${Date.now() - 60_000}` });
await events.waitUntilReady();

const job = await queue.add('order.process', JSON.parse(process.argv[2]), {
  attempts: 5, backoff: { type: 'exponential', delay: 1000 }, requestId: 'from-node',
});
console.log(JSON.stringify({ id: job.id, receipt: await job.waitUntilFinished(events) }));
await Promise.all([queue.close(), events.close()]);
