// Sends the shop's mails in Node. Run the Go service with -queues orders,reports beside it.
//
//   REDIS_PORT=6379 node consumer.mjs

import { UnrecoverableError, Worker } from 'bullmq';

const worker = new Worker('mail', async job => {
  if (job.name !== 'mail.send') {
    throw new UnrecoverableError(`unknown job ${job.name}`);
  }
  console.log(JSON.stringify({ sent: job.data, requestId: job.opts.requestId }));
  return true;
}, {
  connection: { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379), maxRetriesPerRequest: null },
  prefix: process.env.PREFIX ?? 'bull',
  concurrency: 10,
  limiter: { max: 10, duration: 1000 }, // the same as in Go
});
worker.on('error', error => console.error(error));
process.once('SIGTERM', () => worker.close());
