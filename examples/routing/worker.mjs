// Runs the jobs of the queue that any worker may run.
//
//   REDIS_PORT=6379 node worker.mjs

import { Worker } from 'bullmq';

const worker = new Worker('images', async job => {
  console.log(JSON.stringify({ name: job.name, file: job.data.file }));
}, { connection: { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379), maxRetriesPerRequest: null } });
worker.on('error', error => console.error(error));
process.once('SIGTERM', () => worker.close());
