// `run`: a Worker with a described handler that runs until enough jobs have ended.

import { ProtocolError } from './session.mjs';

const HANDLER_KEYS = new Set([
  'progress', 'log', 'sleep', 'failUntilAttempt', 'message', 'unrecoverable', 'throw', 'children',
  'return', 'byName', 'default', 'delay', 'wait', 'rateLimit', 'waitForChildren', 'cancel',
]);

/**
 * Runs a Worker until `count` attempts have ended, each reported by the event `completed` or
 * `failed` (also for an attempt that will be retried), and then closes it.
 */
export async function runWorker(session, { queue, count, worker: options, handler = {}, timeout = 20000 }) {
  checkHandler(handler);
  const worker = session.makeWorker(queue, (job, token, signal) => process(job, token, signal), options);
  const process = processorOf(session, handler, worker);
  const outcomes = [];

  let closing;
  const reached = new Promise(resolve => {
    const note = outcome => {
      outcomes.push(outcome);
      if (outcomes.length >= count && !closing) {
        // Close in the event itself, before the worker's loop continues: nothing more is fetched, and the
        // marker stays unchanged.
        closing = worker.close();
        resolve();
      }
    };
    worker.on('completed', (job, result) =>
      note({ id: job.id, outcome: 'completed', returnvalue: result ?? null }));
    worker.on('failed', (job, error) => note({ id: job.id, outcome: 'failed', reason: error.message }));
  });

  await worker.waitUntilReady();
  const running = worker.run();
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`run: ${outcomes.length} of ${count} jobs ended within ${timeout} ms`)), timeout);
  });
  try {
    await Promise.race([reached, late, running.then(() => reached)]);
  } catch (error) {
    await worker.close(true);
    throw error;
  } finally {
    clearTimeout(timer);
  }
  await closing;
  await running;
  return outcomes;
}

function processorOf(session, described, worker) {
  const { DelayedError, WaitingError, WaitingChildrenError, UnrecoverableError } = session.bullmq;
  return async (job, token, signal) => {
    const handler = described.byName?.[job.name] ?? described.default ?? (described.byName ? {} : described);
    const cancelled = handler.cancel === undefined ? undefined : {
      here: worker.cancelJob(job.id, handler.cancel),
      elsewhere: worker.cancelJob('nobody', handler.cancel),
      reason: signal.reason,
    };
    if (job.attemptsStarted < 2) {
      if (handler.delay !== undefined) {
        await job.moveToDelayed(Date.now() + handler.delay, token);
        throw new DelayedError();
      }
      if (handler.wait) {
        await job.moveToWait(token);
        throw new WaitingError();
      }
      if (handler.rateLimit !== undefined) {
        await worker.rateLimit(handler.rateLimit);
        throw session.bullmq.Worker.RateLimitError();
      }
      if (handler.waitForChildren && (await job.moveToWaitingChildren(token))) {
        throw new WaitingChildrenError();
      }
    }
    if (handler.progress !== undefined) {
      await job.updateProgress(handler.progress);
    }
    if (handler.log !== undefined) {
      await job.log(handler.log);
    }
    if (handler.sleep) {
      await new Promise(resolve => setTimeout(resolve, handler.sleep));
    }
    if (handler.failUntilAttempt !== undefined && job.attemptsMade + 1 < handler.failUntilAttempt) {
      throw new Error(handler.message ?? 'boom');
    }
    if (handler.unrecoverable !== undefined) {
      throw new UnrecoverableError(handler.unrecoverable);
    }
    if (handler.throw !== undefined) {
      throw new Error(handler.throw);
    }
    return handler.children ? job.getChildrenValues() : handler.return ?? cancelled;
  };
}

function checkHandler(handler) {
  for (const [key, value] of Object.entries(handler)) {
    if (!HANDLER_KEYS.has(key)) {
      throw new ProtocolError(`unknown handler key ${key}`);
    }
    if (key === 'default') {
      checkHandler(value);
    }
    if (key === 'byName') {
      Object.values(value).forEach(checkHandler);
    }
  }
}
