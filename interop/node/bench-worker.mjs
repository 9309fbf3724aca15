// The Node side of the benchmarks: a Worker that says when each job's handler started.
//
//   node bench-worker.mjs -redis HOST:PORT -queue latency
//
// Lines in: {"clock":n} is answered at once with {"clock":n,"at":ms}, so that the reader can tell how far
// the two clocks are apart. Lines out: {"event":"ready"}, then {"id","at"} for each job; times are
// milliseconds since 1970 with fractions.

import { Worker } from 'bullmq';

import { connectionOptions, readFlags } from './flags.mjs';
import { readLines, writeLine } from './lines.mjs';

const now = () => performance.timeOrigin + performance.now();

const flags = readFlags({ redis: '127.0.0.1:6379', prefix: 'bull', queue: 'latency' });
const worker = new Worker(flags.queue, async job => {
  const at = now();
  writeLine({ id: job.id, at });
}, { connection: connectionOptions(flags.redis), prefix: flags.prefix });
worker.on('error', error => process.stderr.write(`${error.stack}\n`));
await worker.waitUntilReady();
writeLine({ event: 'ready' });
for await (const line of readLines()) {
  if (line.clock !== undefined) {
    writeLine({ clock: line.clock, at: now() });
  }
}
await worker.close();
process.exit(0);
