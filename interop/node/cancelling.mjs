// Processes a queue whose running jobs other processes can cancel, and asks other processes to cancel jobs.
//
//   node cancelling.mjs -redis HOST:PORT -queue orders [-prefix bull] [-bullmq 6|5] [-concurrency N]
//
// A job runs for `ms` milliseconds of its data, unless it is cancelled. Each line of standard input,
// {"jobId","reason"}, is published as an event that asks to cancel that job. Lines written: {"event":"ready"} and,
// for each start of a handler, {"event":"started","id"}. The program ends with its standard input.

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, readLines, writeLine } from './lines.mjs';

const flags = readFlags({ redis: '127.0.0.1:6379', prefix: 'bull', queue: 'orders', bullmq: '6', concurrency: 10 });
const { QueueEvents, QueueEventsProducer, UnrecoverableError, Worker } = await loadLibrary(flags.bullmq);
const options = () => ({ connection: connectionOptions(flags.redis), prefix: flags.prefix });

const worker = new Worker(flags.queue, async (job, token, signal) => {
  writeLine({ event: 'started', id: job.id });
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, job.data.ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new UnrecoverableError(`cancelled: ${signal.reason}`));
    });
  });
  return 'done';
}, { ...options(), concurrency: flags.concurrency });

const cancels = new QueueEvents(`${flags.queue}@x`, options());
cancels.on('cancel', ({ jobId, reason }) => worker.cancelJob(jobId, reason));

const producer = new QueueEventsProducer(`${flags.queue}@x`, options());
const members = [worker, cancels, producer];
for (const member of members) {
  member.on('error', error => process.stderr.write(`${error?.stack ?? error}\n`));
}
await Promise.all(members.map(member => member.waitUntilReady()));
writeLine({ event: 'ready' });
for await (const { jobId, reason } of readLines()) {
  await producer.publishEvent({ eventName: 'cancel', jobId, reason });
}
await Promise.all(members.map(member => member.close()));
leave();
