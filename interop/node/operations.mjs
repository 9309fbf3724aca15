// The operations of the parity protocol. Each makes one call of the library's public API.

import { setClock } from './clock.mjs';
import { readEvents } from './events-operation.mjs';
import { runWorker } from './run-operation.mjs';
import { ProtocolError } from './session.mjs';

const JOB_FIELDS = [
  'id', 'name', 'data', 'opts', 'attemptsMade', 'attemptsStarted', 'delay', 'priority', 'timestamp',
  'processedOn', 'finishedOn', 'returnvalue', 'failedReason', 'progress', 'parentKey',
  'stalledCounter', 'processedBy', 'repeatJobKey', 'deduplicationId',
];

/** A job as responses represent it: missing fields are omitted, but a missing returnvalue is null. */
function showJob(job) {
  const shown = {};
  for (const field of JOB_FIELDS) {
    const value = job[field];
    const lacking = value === undefined || Number.isNaN(value) || (value === null && field !== 'data');
    if (!lacking) {
      shown[field] = value;
    }
  }
  shown.returnvalue = job.returnvalue ?? null;
  return shown;
}

const showId = job => ({ id: job.id });
const showTree = node => ({
  id: node.job.id,
  children: (node.children ?? []).filter(Boolean).map(showTree),
});

/** What a finishing call returns when it also fetches the next job: [hash, id, limit, delay]. */
const showNext = next => (Array.isArray(next) && next[0] ? { next: next[1] } : null);

/** Operations on a queue: (queue, args, session) => response. */
const onQueue = (args, act) => ({
  args,
  carryOut: async (session, given) => act(await session.queue(given.queue), given, session),
});

/** Operations on a job that is not being processed, found through its queue: (job, args) => response. */
const onJob = (args, act) => ({
  args: ['id', ...args],
  carryOut: async (session, given) => act(await session.job(await session.queue(given.queue), given.id), given),
});

/** Operations on a worker's active job: (job, args, worker, session) => response. */
const onActiveJob = (args, act) => ({
  args: ['id', 'worker', ...args],
  carryOut: async (session, given) => {
    const worker = await session.worker(given.queue, given.worker);
    return act(await session.job(worker, given.id), given, session);
  },
});

/** A job's JSON form without its stack traces, which name source files. */
const showJSON = job => {
  const shown = JSON.parse(JSON.stringify(job.toJSON()));
  return { ...shown, stacktrace: shown.stacktrace.length };
};

const COUNTERS = {
  completed: 'getCompletedCount', failed: 'getFailedCount', delayed: 'getDelayedCount', active: 'getActiveCount',
  prioritized: 'getPrioritizedCount', waiting: 'getWaitingCount', 'waiting-children': 'getWaitingChildrenCount',
};
const LISTERS = {
  completed: 'getCompleted', failed: 'getFailed', delayed: 'getDelayed', active: 'getActive',
  prioritized: 'getPrioritized', waiting: 'getWaiting', 'waiting-children': 'getWaitingChildren',
};

const nothing = async promise => {
  await promise;
  return null;
};

const orFail = async (job, token, act) => {
  try {
    await act();
    return null;
  } catch (error) {
    await job.moveToFailed(error, token, false);
    return error.message;
  }
};

const operations = {
  clock: {
    args: ['now'],
    carryOut: async (_session, { now }) => {
      setClock(now);
      return null;
    },
  },

  // Adding
  add: onQueue(['name', 'data', 'opts'], async (queue, a) => showId(await queue.add(a.name, a.data, a.opts))),
  addBulk: onQueue(['jobs'], async (queue, a) => (await queue.addBulk(a.jobs)).map(showId)),
  addFlow: {
    args: ['flow', 'queuesOptions'],
    carryOut: async (session, a) =>
      showTree(await (await session.flows()).add(a.flow, a.queuesOptions && { queuesOptions: a.queuesOptions })),
  },
  addFlowBulk: {
    args: ['flows'],
    carryOut: async (session, a) => (await (await session.flows()).addBulk(a.flows)).map(showTree),
  },
  flowTree: {
    args: ['id', 'depth', 'maxChildren'],
    carryOut: async (session, a) => {
      const tree = await (await session.flows()).getFlow({ queueName: a.queue, ...given({ id: a.id, depth: a.depth, maxChildren: a.maxChildren }) });
      return tree ? showTree(tree) : null;
    },
  },

  // Processing by hand
  fetch: {
    args: ['token', 'worker'],
    carryOut: async (session, a) => {
      const worker = await session.worker(a.queue, a.worker);
      const job = await worker.getNextJob(a.token, { block: false });
      if (!job) {
        await session.dropWorker(worker);
        return null;
      }
      return showJob(job);
    },
  },
  complete: onActiveJob(['token', 'returnvalue', 'fetchNext'], async (job, a) =>
    showNext(await job.moveToCompleted(a.returnvalue, a.token, a.fetchNext ?? false))),
  fail: onActiveJob(['token', 'message', 'unrecoverable', 'fetchNext'], (job, a, session) => {
    const error = a.unrecoverable ? new session.bullmq.UnrecoverableError(a.message) : new Error(a.message);
    return nothing(job.moveToFailed(error, a.token, a.fetchNext ?? false));
  }),
  extendLock: onActiveJob(['token', 'duration'], (job, a) => job.extendLock(a.token, a.duration)),
  extendLocks: {
    args: ['ids', 'tokens', 'duration', 'worker'],
    carryOut: async (session, a) =>
      (await session.worker(a.queue, a.worker)).extendJobLocks(a.ids, a.tokens, a.duration),
  },
  moveToDelayed: onActiveJob(['timestamp', 'token'], (job, a) => nothing(job.moveToDelayed(a.timestamp, a.token))),
  moveToWait: onActiveJob(['token'], (job, a) => nothing(job.moveToWait(a.token))),
  moveToWaitingChildren: onActiveJob(['token', 'child'], (job, a) =>
    job.moveToWaitingChildren(a.token, given({ child: a.child }))),
  // An error of the call fails the job, as it does when a processor throws it.
  waitOrFail: onActiveJob(['token'], (job, a) => orFail(job, a.token, () => job.moveToWaitingChildren(a.token))),
  completeOrFail: onActiveJob(['token', 'returnvalue'], (job, a) =>
    orFail(job, a.token, () => job.moveToCompleted(a.returnvalue, a.token, false))),
  stalled: {
    args: ['maxStalledCount', 'stalledInterval'],
    carryOut: async (session, { queue, maxStalledCount = 1, stalledInterval = 30000 }) => {
      const worker = await session.worker(queue, { maxStalledCount, stalledInterval });
      const moved = [];
      const note = id => moved.push(id);
      worker.on('stalled', note);
      // One turn of the periodic check. The public startStalledCheckTimer makes this call at once and after
      // each interval, and cannot report when the first call has finished.
      await worker.moveStalledJobsToWait();
      worker.off('stalled', note);
      return moved;
    },
  },
  run: { args: ['count', 'worker', 'handler', 'timeout'], carryOut: runWorker },

  // Jobs
  job: onQueue(['id'], async (queue, a) => {
    const job = await queue.getJob(a.id);
    return job ? showJob(job) : null;
  }),
  state: onQueue(['id'], (queue, a) => queue.getJobState(a.id)),
  progress: onQueue(['id', 'progress'], (queue, a) => nothing(queue.updateJobProgress(a.id, a.progress))),
  jobProgress: onJob(['progress'], (job, a) => nothing(job.updateProgress(a.progress))),
  updateData: onJob(['data'], (job, a) => nothing(job.updateData(a.data))),
  log: onQueue(['id', 'row', 'keep'], (queue, a) => queue.addJobLog(a.id, a.row, a.keep)),
  jobLog: onJob(['row'], (job, a) => job.log(a.row)),
  clearLogs: onJob(['keep'], (job, a) => nothing(job.clearLogs(a.keep))),
  logs: onQueue(['id', 'start', 'end', 'asc'], (queue, a) => queue.getJobLogs(a.id, a.start, a.end, a.asc)),
  retry: onJob(['state', 'opts'], (job, a) => nothing(job.retry(a.state, a.opts))),
  promote: onJob([], job => nothing(job.promote())),
  changeDelay: onJob(['delay'], (job, a) => nothing(job.changeDelay(a.delay))),
  changePriority: onJob(['priority', 'lifo'], (job, a) =>
    nothing(job.changePriority({ priority: a.priority, lifo: a.lifo }))),
  remove: onQueue(['id', 'removeChildren'], (queue, a) =>
    queue.remove(a.id, a.removeChildren === undefined ? {} : { removeChildren: a.removeChildren })),
  removeJob: onJob([], job => nothing(job.remove())),
  removeUnprocessedChildren: onJob([], job => nothing(job.removeUnprocessedChildren())),
  removeChildDependency: onJob([], job => job.removeChildDependency()),
  childrenValues: onJob([], job => job.getChildrenValues()),
  ignoredChildrenFailures: onJob([], job => job.getIgnoredChildrenFailures()),
  dependencies: onJob([], job => job.getDependencies()),
  dependenciesPage: onJob(['processed', 'unprocessed', 'ignored', 'failed'], (job, a) =>
    job.getDependencies(given({ processed: a.processed, unprocessed: a.unprocessed, ignored: a.ignored, failed: a.failed }))),
  children: onQueue(['id', 'type', 'start', 'end'], async (queue, a) => {
    const { items, jobs, total } = await queue.getDependencies(a.id, a.type, a.start, a.end);
    return { children: items.map((item, i) => ({ ...item, name: jobs[i].name })), total };
  }),
  dependenciesCount: onJob([], job => job.getDependenciesCount()),

  // Deduplication
  removeJobDeduplicationKey: onJob([], job => job.removeDeduplicationKey()),
  removeDeduplicationKey: onQueue(['dedupId'], (queue, a) => queue.removeDeduplicationKey(a.dedupId)),
  deduplicationJobId: onQueue(['dedupId'], (queue, a) => queue.getDeduplicationJobId(a.dedupId)),

  // The whole queue
  openQueue: {
    args: ['streams', 'skipMetasUpdate', 'defaultJobOptions'],
    carryOut: (session, { queue, ...options }) => nothing(session.openQueue(queue, options)),
  },
  pause: onQueue([], queue => nothing(queue.pause())),
  resume: onQueue([], queue => nothing(queue.resume())),
  isPaused: onQueue([], queue => queue.isPaused()),
  isMaxed: onQueue([], queue => queue.isMaxed()),
  drain: onQueue(['delayed'], (queue, a) => nothing(queue.drain(a.delayed))),
  obliterate: onQueue(['force', 'count'], (queue, a) => nothing(queue.obliterate(given({ force: a.force, count: a.count })))),
  clean: onQueue(['grace', 'limit', 'type'], async (queue, a) => (await queue.clean(a.grace, a.limit, a.type)).sort()),
  retryJobs: onQueue(['state', 'count', 'timestamp'], (queue, a) =>
    nothing(queue.retryJobs(given({ state: a.state, count: a.count, timestamp: a.timestamp })))),
  promoteJobs: onQueue(['count'], (queue, a) => nothing(queue.promoteJobs(given({ count: a.count })))),
  publish: {
    args: ['event', 'fields', 'max'],
    carryOut: async (session, a) =>
      nothing((await session.eventsProducer(a.queue)).publishEvent({ eventName: a.event, ...a.fields }, a.max)),
  },
  trimEvents: onQueue(['max'], (queue, a) => queue.trimEvents(a.max)),
  removeOrphanedJobs: onQueue(['count', 'limit'], (queue, a) => queue.removeOrphanedJobs(a.count, a.limit)),
  removeDeprecatedPriorityKey: onQueue([], queue => queue.removeDeprecatedPriorityKey()),
  setGlobalConcurrency: onQueue(['concurrency'], (queue, a) => nothing(queue.setGlobalConcurrency(a.concurrency))),
  removeGlobalConcurrency: onQueue([], queue => nothing(queue.removeGlobalConcurrency())),
  globalConcurrency: onQueue([], queue => queue.getGlobalConcurrency()),
  setGlobalRateLimit: onQueue(['max', 'duration'], (queue, a) => nothing(queue.setGlobalRateLimit(a.max, a.duration))),
  globalRateLimit: onQueue([], queue => queue.getGlobalRateLimit()),
  removeGlobalRateLimit: onQueue([], queue => nothing(queue.removeGlobalRateLimit())),
  rateLimit: onQueue(['ms'], (queue, a) => nothing(queue.rateLimit(a.ms))),
  removeRateLimitKey: onQueue([], queue => queue.removeRateLimitKey()),
  rateLimitTtl: onQueue(['max'], (queue, a) => queue.getRateLimitTtl(a.max)),

  // Schedulers
  upsertScheduler: onQueue(['id', 'repeat', 'template'], async (queue, a) => {
    const job = await queue.upsertJobScheduler(a.id, a.repeat, a.template);
    return job ? showId(job) : null;
  }),
  removeScheduler: onQueue(['id'], (queue, a) => queue.removeJobScheduler(a.id)),
  scheduler: onQueue(['id'], (queue, a) => queue.getJobScheduler(a.id)),
  schedulers: onQueue(['start', 'end', 'asc'], (queue, a) => queue.getJobSchedulers(a.start, a.end, a.asc)),
  schedulerObject: onQueue(['id'], async (queue, a) => {
    const schedulers = await queue.jobScheduler;
    return {
      scheduler: (await schedulers.getScheduler(a.id)) ?? null,
      known: await schedulers.isJobScheduler(a.id),
      count: await schedulers.getSchedulersCount(),
    };
  }),
  schedulersCount: onQueue([], queue => queue.getJobSchedulersCount()),

  // Getters
  jobs: onQueue(['types', 'start', 'end', 'asc'], async (queue, a) =>
    (await queue.getJobs(a.types, a.start, a.end, a.asc)).map(showJob)),
  ids: onQueue(['types', 'start', 'end', 'asc'], (queue, a) => queue.getRanges(a.types, a.start, a.end, a.asc)),
  jobsOf: onQueue(['state', 'start', 'end'], async (queue, a) => (await queue[LISTERS[a.state]](a.start, a.end)).map(showJob)),
  countOf: onQueue(['state', 'before'], (queue, a) => queue[COUNTERS[a.state]](a.before)),
  countOfTypes: onQueue(['types'], (queue, a) => queue.getJobCountByTypes(...a.types)),
  json: onQueue(['id'], async (queue, a) => showJSON(await queue.getJob(a.id))),
  isIn: onJob([], async job => ({
    completed: await job.isCompleted(), failed: await job.isFailed(), delayed: await job.isDelayed(), active: await job.isActive(),
    waiting: await job.isWaiting(), 'waiting-children': await job.isWaitingChildren(), state: await job.getState(),
  })),
  meta: onQueue([], async queue => ({ meta: await queue.getMeta(), version: await queue.getVersion() })),
  prometheus: onQueue(['labels'], (queue, a) => queue.exportPrometheusMetrics(a.labels)),
  counts: onQueue(['types'], (queue, a) => queue.getJobCounts(...(a.types ?? []))),
  count: onQueue([], queue => queue.count()),
  countsPerPriority: onQueue(['priorities'], (queue, a) => queue.getCountsPerPriority(a.priorities)),
  metrics: onQueue(['type', 'start', 'end'], (queue, a) => queue.getMetrics(a.type, a.start, a.end)),
  events: { args: ['wait'], carryOut: readEvents },
};

/** Only the arguments that the scenario gives, so that the library's defaults apply to the rest. */
function given(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** Operations without a queue. */
const WITHOUT_QUEUE = new Set(['clock', 'addFlow', 'addFlowBulk']);

/** Executes one instruction and returns its response; undefined becomes null. */
export async function carryOut(session, op, args = {}) {
  const operation = Object.hasOwn(operations, op) ? operations[op] : undefined;
  if (!operation) {
    throw new ProtocolError(`unknown operation ${op}`);
  }
  const needsQueue = !WITHOUT_QUEUE.has(op);
  for (const name of Object.keys(args)) {
    if (!operation.args.includes(name) && !(needsQueue && name === 'queue')) {
      throw new ProtocolError(`operation ${op} has no argument ${name}`);
    }
  }
  if (needsQueue && typeof args.queue !== 'string') {
    throw new ProtocolError(`operation ${op} needs a queue`);
  }
  return (await operation.carryOut(session, args)) ?? null;
}
