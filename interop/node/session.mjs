// What a scenario's steps share: the queues, workers and the flow producer that they use.

import { Redis } from 'ioredis';

const WORKER_OPTIONS = new Set([
  'name', 'lockDuration', 'limiter', 'metrics', 'maxStalledCount', 'stalledInterval',
  'maxStartedAttempts', 'removeOnComplete', 'removeOnFail', 'concurrency',
]);

/**
 * A session makes each object when a step first needs it and keeps it, as a program that uses
 * the library would: one Queue a name, one Worker for each set of options. When an object is
 * made shows on the wire (a Queue writes `meta`, a Worker and a FlowProducer don't), so only
 * operations on a Queue make one.
 */
export class Session {
  #connection;
  #client;
  #prefix;
  #queues = new Map();
  #workers = new Map();
  #flows;
  #telemetry;
  #producers = new Map();

  constructor({ bullmq, connection, prefix, telemetry }) {
    this.bullmq = bullmq;
    this.#telemetry = telemetry;
    this.#connection = connection;
    this.#prefix = prefix;
  }

  /** Options for an object of the library: over the shared connection, or one of its own. */
  options({ own = false } = {}) {
    return {
      prefix: this.#prefix,
      connection: own ? { ...this.#connection } : this.client(),
      ...(this.#telemetry ? { telemetry: this.#telemetry } : {}),
    };
  }

  /** The connection that the session's objects share. */
  client() {
    this.#client ??= logErrors(new Redis(this.#connection), 'connection');
    return this.#client;
  }

  /** Makes a Queue with options of its own, which the steps that follow use. */
  async openQueue(name, options) {
    await this.#queues.get(name)?.close();
    this.#queues.delete(name);
    await this.queue(name, options);
  }

  async queue(name, options = {}) {
    if (!this.#queues.has(name)) {
      const queue = logErrors(new this.bullmq.Queue(name, { ...options, ...this.options() }), `queue ${name}`);
      this.#queues.set(name, queue);
      // The constructor writes `meta` in the background; reading a field of it back over the
      // same connection is the sign that it is there.
      await queue.waitUntilReady();
      await queue.getVersion();
    }
    return this.#queues.get(name);
  }

  /** A Worker that runs nothing, for jobs that are fetched and finished by hand. */
  async worker(queueName, options = {}) {
    const key = JSON.stringify([queueName, sorted(options)]);
    if (!this.#workers.has(key)) {
      const worker = this.makeWorker(queueName, undefined, options);
      this.#workers.set(key, worker);
      await worker.waitUntilReady();
    }
    return this.#workers.get(key);
  }

  /**
   * Forgets a Worker. One that found a rate limit doesn't ask the server again before the limit's
   * end by the clock, which for a stopped clock never comes.
   */
  async dropWorker(worker) {
    for (const [key, known] of this.#workers) {
      if (known === worker) {
        this.#workers.delete(key);
      }
    }
    await worker.close();
  }

  makeWorker(queueName, processor, options = {}) {
    for (const name of Object.keys(options)) {
      if (!WORKER_OPTIONS.has(name)) {
        throw new ProtocolError(`unknown worker option ${name}`);
      }
    }
    const worker = new this.bullmq.Worker(queueName, processor, {
      ...options,
      ...this.options(),
      autorun: false,
    });
    return logErrors(worker, `worker of ${queueName}`);
  }

  async flows() {
    if (!this.#flows) {
      this.#flows = logErrors(new this.bullmq.FlowProducer(this.options()), 'flow producer');
      await this.#flows.waitUntilReady();
    }
    return this.#flows;
  }

  /** A producer of events alone, which says nothing of the queue in `meta`. */
  async eventsProducer(queueName) {
    if (!this.#producers.has(queueName)) {
      const producer = logErrors(new this.bullmq.QueueEventsProducer(queueName, this.options()), `events of ${queueName}`);
      this.#producers.set(queueName, producer);
      await producer.waitUntilReady();
    }
    return this.#producers.get(queueName);
  }

  /**
   * The job as a Queue or Worker knows it, so that its methods act with that one's options. Where
   * the hash is gone, a bare job stands in: its holder would still call it, and the script answers.
   */
  async job(owner, id) {
    return (await this.bullmq.Job.fromId(owner, id)) ?? new this.bullmq.Job(owner, '', {}, {}, id);
  }

  async close() {
    const closing = [...this.#workers.values(), ...this.#queues.values(), ...this.#producers.values()].map(object => object.close());
    closing.push(this.#flows?.close());
    await Promise.all(closing);
    this.#client?.disconnect();
  }
}

/** An instruction that can't be carried out as it stands: a fault of the scenario, not an answer. */
export class ProtocolError extends Error {}

function logErrors(object, what) {
  object.on('error', error => process.stderr.write(`${what}: ${error?.stack ?? error}\n`));
  return object;
}

function sorted(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).sort().map(([name, part]) => [name, sorted(part)]));
}
