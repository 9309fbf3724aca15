// Adds jobs to a queue: those on standard input, one {name, data, opts} per line, or a generated mix.
//
//   node producer.mjs -redis HOST:PORT -queue orders [-prefix bull] [-bullmq 6|5]
//                     [-generate N [-seed S]] [-bulk N] [-go-on]
//
// It writes {"event":"ready"}, {"event":"added","id","name","data","opts"} for each job, and
// {"event":"done","added"} when the input has ended or all N jobs are added. -bulk sets the number of jobs
// per call. A call that fails ends the program. With -go-on it is reported as
// {"event":"refused","message","name","data","opts"} for each job, and the program continues. SIGTERM ends it
// after the call in flight.

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, readLines, writeLine } from './lines.mjs';
import { mixOfJobs } from './mix.mjs';

const flags = readFlags({
  redis: '127.0.0.1:6379', prefix: 'bull', queue: 'orders', bullmq: '6', generate: 0, seed: 1, bulk: 0,
  'go-on': false,
});
const { Queue } = await loadLibrary(flags.bullmq);

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => stop.abort());
}

const queue = new Queue(flags.queue, { connection: connectionOptions(flags.redis), prefix: flags.prefix });
queue.on('error', error => process.stderr.write(`${error.stack}\n`));
await queue.waitUntilReady();
await queue.getVersion(); // returns once the queue's meta is written
writeLine({ event: 'ready' });

let added = 0;
const specs = flags.generate > 0 ? mixOfJobs(flags.generate, flags.seed) : readLines({ signal: stop.signal });
for await (const batch of batches(specs, flags.bulk)) {
  try {
    const jobs = flags.bulk > 0
      ? await queue.addBulk(batch)
      : [await queue.add(batch[0].name, batch[0].data, batch[0].opts)];
    jobs.forEach((job, index) => writeLine({ event: 'added', id: job.id, ...batch[index] }));
    added += jobs.length;
  } catch (error) {
    if (!flags['go-on']) {
      throw error;
    }
    batch.forEach(spec => writeLine({ event: 'refused', message: error.message, ...spec }));
  }
  if (stop.signal.aborted) {
    break;
  }
}
await queue.close();
writeLine({ event: 'done', added });
leave();

/** Groups specs into batches of the given size, or of one. */
async function* batches(specs, size) {
  let batch = [];
  for await (const spec of specs) {
    batch.push(spec);
    if (batch.length >= Math.max(size, 1)) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) {
    yield batch;
  }
}
