// What the steps of a scenario share: queues, workers and the flow producer.

import { Redis } from 'ioredis';

const WORKER_OPTIONS = new Set([
  'name', 'lockDuration', 'limiter', 'metrics', 'maxStalledCount', 'stalledInterval',
  'maxStartedAttempts', 'removeOnComplete', 'removeOnFail', 'concurrency',
]);

/**
 * A session creates each object when a step first needs it and keeps it, as a program that uses
 * the library would: one Queue per name and one Worker per set of options. A new Queue writes
 * `meta`; a Worker and a FlowProducer do not. Only operations on a Queue therefore create one.
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

  /** Options for an object of the library, with the shared connection or a new one. */
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

  /** Creates a Queue with the given options, which later steps use. */
  async openQueue(name, options) {
    await this.#queues.get(name)?.close();
    this.#queues.delete(name);
    await this.queue(name, options);
  }

  async queue(name, options = {}) {
    if (!this.#queues.has(name)) {
      const queue = logErrors(new this.bullmq.Queue(name, { ...options, ...this.options() }), `queue ${name}`);
      this.#queues.set(name, queue);
      // The constructor writes `meta` in the background. Reading one of its fields over the same connection
      // shows that it has been written.
      await queue.waitUntilReady();
      await queue.getVersion();
    }
    return this.#queues.get(name);
  }

  /** A Worker without a processor, for jobs that are fetched and finished by hand. */
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
   * Discards a Worker. One that hit a rate limit does not contact the server before the limit
   * ends, and a stopped clock never reaches that time.
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

  /** A producer of events only, which writes nothing to `meta`. */
  async eventsProducer(queueName) {
    if (!this.#producers.has(queueName)) {
      const producer = logErrors(new this.bullmq.QueueEventsProducer(queueName, this.options()), `events of ${queueName}`);
      this.#producers.set(queueName, producer);
      await producer.waitUntilReady();
    }
    return this.#producers.get(queueName);
  }

  /**
   * Returns a job of a Queue or Worker, so that its methods use that object's options. If the hash
   * does not exist, it returns a job with only an id: a program that holds such a job could still
   * make the call.
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

/** An invalid instruction: a mistake of the scenario, not a response. */
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
