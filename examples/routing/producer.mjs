// Adds jobs that need a GPU, and jobs that any worker may run.
//
//   REDIS_PORT=6379 node producer.mjs

import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

// The name of the queue for jobs with a target. docs/routing.md describes it.
const routeOf = (queue, { server, stack, region, capabilities = [], mode } = {}) => {
  const needs = server ? [`server=${server}`] : [...capabilities, stack && `stack=${stack}`, region && `region=${region}`];
  const sorted = [...new Set(needs.filter(Boolean).map(need => need.toLowerCase()))].sort();
  return sorted.length ? `${queue}@${sorted.join(mode === 'any' ? '|' : '+')}` : queue;
};

const connection = new Redis({
  host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379), maxRetriesPerRequest: null,
});
const images = new Queue('images', { connection });
const withGPU = new Queue(routeOf('images', { capabilities: ['gpu'] }), { connection });
// Workers learn of the route by this command.
await connection.zadd('bull:images@x:new', 0, withGPU.name);

for (const file of ['cat.png', 'dog.png', 'owl.png']) {
  await withGPU.add('render', { file });
  await images.add('thumbnail', { file });
}
await Promise.all([images.close(), withGPU.close()]);
await connection.quit();
