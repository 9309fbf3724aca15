// Runs the requests of POST /charts/{id}. Their data and their results are described in docs/http.md.
//
//   REDIS_PORT=6379 node worker.mjs

import { setTimeout } from 'node:timers/promises';
import { Worker } from 'bullmq';

const worker = new Worker('http-charts', async job => {
  const { method, path, params, body } = job.data;
  await setTimeout(300);
  console.log(JSON.stringify({ ran: `${method} ${path}` }));
  return { status: 201, contentType: 'application/json', body: { chart: params.id, year: body.year, by: 'Node' } };
}, { connection: { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379), maxRetriesPerRequest: null } });
worker.on('error', error => console.error(error));
process.once('SIGTERM', () => worker.close());
