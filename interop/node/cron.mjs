// The reference for cron patterns: answers, one JSON line for each JSON line read, what bullmq computes.
//
//   {"do":"next","pattern":"0 3 * * *","tz":"Europe/Paris","from":1700000000000}          the run after `from`
//   {"do":"prev", ...}                                                                    the run before it
//   {"do":"upsert","options":{...},"prevMillis":0,"now":1700000000000,"override":true}    a scheduler's next run
//   {"do":"zone","tz":"Europe/Paris","at":[1700000000000]}                                offsets from UTC in ms
//   {"do":"about"}                                                                        versions behind the answers
//
// startDate, endDate and hashSeed may be given to next and prev. Answers: {"at":ms}; {"none":why} when the pattern
// is fine but does not run; {"refused":why} when pattern, zone or options are turned down; {"offsets":[...]}.
// With `--v5` the answers are those of bullmq 5 (its own cron-parser).
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const v5 = process.argv.includes('--v5');
const here = createRequire(import.meta.url);
const bullmq = createRequire(here.resolve(v5 ? 'bullmq5' : 'bullmq'));
const { JobScheduler } = here(v5 ? 'bullmq5' : 'bullmq');
const cronParser = bullmq('cron-parser');
const parserFiles = createRequire(bullmq.resolve('cron-parser'));
const { DateTime, IANAZone } = parserFiles('luxon');
const parse = v5
  ? (pattern, options) => cronParser.parseExpression(pattern, options)
  : (pattern, options) => cronParser.CronExpressionParser.parse(pattern, options);

// luxon asks for the same offsets over and over, and each takes Intl some microseconds; remembered, they are the same.
const slowOffset = IANAZone.prototype.offset;
const known = new Map();
IANAZone.prototype.offset = function (millis) {
  let offsets = known.get(this.name);
  if (!offsets) known.set(this.name, (offsets = new Map()));
  let offset = offsets.get(millis);
  if (offset === undefined) offsets.set(millis, (offset = slowOffset.call(this, millis)));
  return offset;
};

const RealDate = Date;
const whyOf = (error) => String(error?.message ?? error);

// Runs `task` with the clock stopped at `now`.
async function atTime(now, task) {
  globalThis.Date = class extends RealDate {
    constructor(...given) {
      super(...(given.length ? given : [now]));
    }
    static now() {
      return now;
    }
  };
  try {
    return await task();
  } finally {
    globalThis.Date = RealDate;
  }
}

function neighbour({ do: direction, pattern, tz, from, startDate, endDate, hashSeed }) {
  let expression;
  try {
    expression = parse(pattern, { currentDate: new Date(from), tz, startDate, endDate, hashSeed });
  } catch (error) {
    return { refused: whyOf(error) };
  }
  try {
    return { at: expression[direction]().getTime() };
  } catch (error) {
    return { none: whyOf(error) };
  }
}

// bullmq's own upsertJobScheduler, up to the point where it would call Redis.
async function upsert({ options, prevMillis, now, override }) {
  let at;
  const scheduler = Object.create(JobScheduler.prototype);
  const store = {
    addJobScheduler: async (id, next) => ((at = next), ['', 0]),
    updateJobSchedulerNextMillis: async (id, next) => void (at = next),
  };
  // 6.7.0 calls its store `backend`, 5.81.5 `scripts`.
  const standIns = {
    name: 'cron',
    opts: {},
    backend: store,
    scripts: { ...store, addJobScheduler: async (id, next) => ((at = next), ['', 0]) },
    client: Promise.resolve({}),
    trace: async (kind, operation, destination, task) => task(),
    Job: class {},
  };
  for (const [name, value] of Object.entries(standIns)) {
    Object.defineProperty(scheduler, name, { value });
  }
  const { defaultRepeatStrategy } = bullmq('./classes/job-scheduler.js');
  Object.defineProperty(scheduler, 'repeatStrategy', { value: defaultRepeatStrategy });
  try {
    await atTime(now, () =>
      scheduler.upsertJobScheduler('nightly', options, 'nightly', {}, { prevMillis }, { override, producerId: '1' }),
    );
  } catch (error) {
    return { refused: whyOf(error) };
  }
  return at === undefined ? { none: 'no job' } : { at };
}

function zone({ tz, at }) {
  const offsets = [];
  for (const millis of at) {
    const local = DateTime.fromMillis(millis, { zone: tz });
    if (!local.isValid) {
      return { refused: local.invalidExplanation };
    }
    offsets.push(Math.round(local.offset * 60000));
  }
  return { offsets };
}

function about() {
  const version = (name, from) => from(`${name}/package.json`).version;
  return {
    bullmq: here(`${v5 ? 'bullmq5' : 'bullmq'}/package.json`).version,
    cronParser: version('cron-parser', bullmq),
    luxon: version('luxon', parserFiles),
    node: process.versions.node,
    tz: process.versions.tz,
    zones: Intl.supportedValuesOf('timeZone'),
  };
}

const answers = { next: neighbour, prev: neighbour, upsert, zone, about };
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(JSON.stringify(await answers[request.do](request)) + '\n');
}
