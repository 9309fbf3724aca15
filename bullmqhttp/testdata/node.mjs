// Runs the requests of the first queue, as a worker in Node that takes a route over, and adds a request to the second queue, whose
// worker is in Go. Writes the return value of that job. Large bodies are files in a directory.
//
//   REDIS_PORT=6379 node node.mjs reports other /var/lib/reports

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Queue, QueueEvents, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const [served, other, bodies] = process.argv.slice(2);

const worker = new Worker(served, async job => {
  const { method, params, query, headers, body, contentType, bodyRef, bodySize } = job.data;
  if (bodyRef) {
    const text = await readFile(join(bodies, bodyRef), 'utf8');
    await writeFile(join(bodies, bodyRef + '.reply'), text.toUpperCase());
    return { status: 200, contentType, bodyRef: bodyRef + '.reply', bodySize };
  }
  await job.updateProgress(50);
  return { status: 201, headers: { etag: '"1"' }, contentType: 'application/json', body: { method, params, query, headers, body, contentType } };
}, { connection });

const queue = new Queue(other, { connection });
const events = new QueueEvents(other, { connection });
await events.waitUntilReady();
const job = await queue.add('report', { method: 'POST', path: '/reports/9', query: { q: ['ä'] }, contentType: 'application/json', body: { year: 2025 } });
console.log(JSON.stringify(await job.waitUntilFinished(events)));

process.once('SIGTERM', () => Promise.all([worker.close(), queue.close(), events.close()]));
