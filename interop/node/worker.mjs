// Processes a queue and reports every job.
//
//   node worker.mjs -redis HOST:PORT -queue orders [-prefix bull] [-bullmq 6|5] [-name w1]
//                   [-concurrency N] [-count N] [-fail-every N] [-sleep MS] [-lock-duration MS]
//                   [-stalled-interval MS] [-max-stalled-count N] [-limit-max N -limit-duration MS] [-family]
//                   [-brief]
//
// A job fails while the number of its attempt is below `failUntilAttempt` in its data. With -fail-every,
// every N-th started job fails too. Other jobs return {"by": name, "sequence": number from the data}. With
// -family they first wait until no child is pending and return {"sequence", "values", "failures"}, the latter
// two by the children's keys.
//
// Lines: {"event":"ready"} once it fetches jobs; {"event":"started"}, {"event":"completed","returnvalue"} and
// {"event":"failed","reason","final"}, each with id, name, data, attemptsMade and attemptsStarted, or with -brief the data's
// sequence in place of name and data; {"event":"stalled","id"}, {"event":"drained"},
// {"event":"error","message"}; and {"event":"closed","completed","failed"} at the end. The worker ends after
// -count jobs have completed or failed without a retry, on SIGTERM, or when its standard input is closed. In each
// case running jobs finish first.

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, writeLine } from './lines.mjs';
import { askedToStop } from './stopping.mjs';

const flags = readFlags({
  redis: '127.0.0.1:6379', prefix: 'bull', queue: 'orders', bullmq: '6', name: undefined,
  concurrency: 1, count: 0, 'fail-every': 0, sleep: 0, 'lock-duration': 30000,
  'stalled-interval': 30000, 'max-stalled-count': 1, 'limit-max': 0, 'limit-duration': 1000,
  family: false, brief: false,
});
const { Worker } = await loadLibrary(flags.bullmq);

let started = 0;
const worker = new Worker(flags.queue, work, {
  connection: connectionOptions(flags.redis),
  prefix: flags.prefix,
  autorun: false,
  concurrency: flags.concurrency,
  lockDuration: flags['lock-duration'],
  stalledInterval: flags['stalled-interval'],
  maxStalledCount: flags['max-stalled-count'],
  ...(flags.name === undefined ? {} : { name: flags.name }),
  ...(flags['limit-max'] > 0 ? { limiter: { max: flags['limit-max'], duration: flags['limit-duration'] } } : {}),
});

const ended = { completed: 0, failed: 0 };
const counted = new Promise(resolve => {
  const count = outcome => {
    ended[outcome]++;
    if (flags.count > 0 && ended.completed + ended.failed >= flags.count) {
      resolve('count');
    }
  };
  worker.on('completed', (job, returnvalue) => {
    tell('completed', job, { returnvalue: returnvalue ?? null });
    count('completed');
  });
  worker.on('failed', (job, error) => {
    // Only a job that will not be retried has a finish time.
    const final = Boolean(job?.finishedOn);
    tell('failed', job, { reason: error.message, final });
    if (final) {
      count('failed');
    }
  });
});
worker.on('stalled', id => writeLine({ event: 'stalled', id }));
worker.on('drained', () => writeLine({ event: 'drained' }));
worker.on('error', error => writeLine({ event: 'error', message: error.message }));

await worker.waitUntilReady();
const running = worker.run();
const stopped = askedToStop(); // from now on a signal does not kill the process
writeLine({ event: 'ready' });
await Promise.race([counted, stopped]);
await worker.close();
await running;
writeLine({ event: 'closed', ...ended });
leave();

async function work(job) {
  tell('started', job);
  started++;
  const failNow = flags['fail-every'] > 0 && started % flags['fail-every'] === 0;
  if (flags.sleep > 0) {
    await new Promise(resolve => setTimeout(resolve, flags.sleep));
  }
  const attempt = job.attemptsMade + 1;
  if (attempt < (job.data?.failUntilAttempt ?? 0)) {
    throw new Error(`attempt ${attempt} fails as planned in the job's data`);
  }
  if (failNow) {
    throw new Error(`job ${started} of this worker fails`);
  }
  const sequence = job.data?.sequence ?? null;
  if (!flags.family) {
    return { by: flags.name ?? `node-${flags.bullmq}`, sequence };
  }
  // A parent that continues without waiting for a failed child must not end before the others.
  while ((await job.getDependenciesCount()).unprocessed > 0) {
    await new Promise(resolve => setTimeout(resolve, 10));
  }
  return { sequence, values: await job.getChildrenValues(), failures: await job.getIgnoredChildrenFailures() };
}

function tell(event, job, more = {}) {
  if (flags.brief) {
    writeLine({ event, id: job?.id, sequence: job?.data?.sequence, attemptsMade: job?.attemptsMade, attemptsStarted: job?.attemptsStarted, final: more.final });
    return;
  }
  writeLine({ event, id: job?.id, name: job?.name, data: job?.data, attemptsMade: job?.attemptsMade, attemptsStarted: job?.attemptsStarted, ...more });
}
