// Calls the library for a test: the operations of the parity protocol and those below, several at a time.
// Each has a response when it is done.
//
//   node probe.mjs -redis HOST:PORT [-prefix bull] [-bullmq 6|5] [-telemetry]
//
// It writes {"event":"ready"}, then reads {"id":1,"op":"…","args":{…}} and responds {"id":1,"result":…} or
// {"id":1,"error":{"message":"…","code":-2}}. It ends with its standard input or on SIGTERM. With -telemetry
// everything is traced and measured by bullmq-otel.

import { Redis } from 'ioredis';

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, readLines, writeLine } from './lines.mjs';
import { carryOut } from './operations.mjs';
import { Session } from './session.mjs';
import { startTelemetry } from './telemetry.mjs';

const flags = readFlags({ redis: '127.0.0.1:6379', prefix: 'bull', bullmq: '6', telemetry: false });
const bullmq = await loadLibrary(flags.bullmq);
const connection = connectionOptions(flags.redis);
const recorded = flags.telemetry ? startTelemetry() : undefined;
const session = new Session({ bullmq, connection, prefix: flags.prefix, telemetry: recorded?.telemetry });

/** The results that are waited for, by queue: {events, results}. results holds promises by job id. */
const awaited = new Map();

const more = {
  /** All fields of a Job object; undefined fields are omitted. */
  async record({ queue: name, id }) {
    const queue = await session.queue(name);
    const job = await queue.getJob(id);
    if (!job) {
      return null;
    }
    return {
      ...Object.fromEntries(Object.entries(job.toJSON())),
      progress: job.progress,
      returnvalue: job.returnvalue,
      stacktrace: job.stacktrace,
      failedReason: job.failedReason,
      processedBy: job.processedBy,
      attemptsMade: job.attemptsMade,
      attemptsStarted: job.attemptsStarted,
      stalledCounter: job.stalledCounter,
      state: await job.getState(),
      logs: (await queue.getJobLogs(id)).logs,
    };
  },

  /** The connection names that getWorkers and getQueueEvents find. */
  async workers({ queue }) {
    return (await (await session.queue(queue)).getWorkers()).map(client => client.rawname);
  },
  async eventReaders({ queue }) {
    return (await (await session.queue(queue)).getQueueEvents()).map(client => client.rawname);
  },

  /** Announces a queue to a registry of the SDK, as docs/many-queues.md shows. */
  async announce({ queue, registry }) {
    const redis = new Redis(connection);
    await redis.zadd(`${flags.prefix}:${registry}@x:new`, 0, queue);
    redis.disconnect();
  },

  /** Starts to wait for the results of jobs (waitUntilFinished). The response is sent once none can be missed. */
  async listen({ queue: name, ids, ttl = 60000 }) {
    const queue = await session.queue(name);
    const events = await listener(name);
    const results = awaited.get(name).results;
    for (const id of ids) {
      const job = new bullmq.Job(queue, '', {}, {}, id);
      results.set(id, job.waitUntilFinished(events, ttl).then(
        returnvalue => ({ returnvalue: returnvalue ?? null }),
        error => ({ error: error.message }),
      ));
    }
    // By the next turn each wait has sent its command over the connection of the queue. The reply of getVersion follows
    // their replies.
    await new Promise(resolve => setImmediate(resolve));
    await queue.getVersion();
    return results.size;
  },

  /** The outcomes of these waits: {id: {returnvalue} or {error}}. */
  async results({ queue }) {
    const { results } = awaited.get(queue);
    return Object.fromEntries(
      await Promise.all([...results].map(async ([id, result]) => [id, await result])));
  },

  /** Performs an operation with the remote context of a carrier. */
  within: ({ carrier, op, args }) => recorded.within(carrier, () => carryOut(session, op, args)),
  /** The spans that ended since the last call, and all measurements. */
  spans: () => recorded.spans(),
  measured: () => recorded.measured(),
  async recordCounts({ queue }) {
    return (await session.queue(queue)).recordJobCountsMetric();
  },

  /** Pauses and resumes a running worker once in each way and closes it. */
  async pauseAndResume({ queue }) {
    const worker = new bullmq.Worker(queue, async () => {}, { ...session.options(), autorun: false, skipStalledCheck: true });
    const running = worker.run();
    await worker.pause();
    await worker.resume();
    await worker.pause(true);
    await worker.resume();
    await worker.close();
    await running;
  },

  /** Publishes a custom event. */
  async publish({ queue, event }) {
    const producer = new bullmq.QueueEventsProducer(queue, session.options());
    await producer.publishEvent(event);
    return null;
  },
};

/** One QueueEvents per queue, which reads from the stream's current last entry. */
async function listener(name) {
  if (!awaited.has(name)) {
    const redis = new Redis(connection);
    const [last] = await redis.xrevrange(`${flags.prefix}:${name}:events`, '+', '-', 'COUNT', 1);
    redis.disconnect();
    const events = new bullmq.QueueEvents(name, {
      ...session.options({ own: true }),
      lastEventId: last?.[0] ?? '0-0',
    });
    events.setMaxListeners(0);
    events.on('error', error => process.stderr.write(`${error.stack}\n`));
    await events.waitUntilReady();
    awaited.set(name, { events, results: new Map() });
  }
  return awaited.get(name).events;
}

async function respond({ id, op, args = {} }) {
  try {
    const result = Object.hasOwn(more, op) ? await more[op](args) : await carryOut(session, op, args);
    writeLine({ id, result: result ?? null });
  } catch (error) {
    const { message, code } = error;
    writeLine({ id, error: typeof code === 'number' ? { message, code } : { message } });
  }
}

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
writeLine({ event: 'ready' });
for await (const instruction of readLines({ signal: stop.signal })) {
  void respond(instruction);
}
await Promise.all([...awaited.values()].map(({ events }) => events.close()));
await session.close();
leave();
