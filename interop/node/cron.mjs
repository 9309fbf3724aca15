// The reference for cron patterns. It replies to each line of JSON with a line of JSON computed by bullmq.
//
//   {"do":"next","pattern":"0 3 * * *","tz":"Europe/Paris","from":1700000000000}   the run after an instant
//   {"do":"prev", ...}                                                             the run before it
//   {"do":"upsert","options":{...},"prevMillis":0,"now":1700000000000}             a scheduler's next run
//   {"do":"zone","tz":"Europe/Paris","instants":[1700000000000]}                   offsets from UTC
//   {"do":"about"}                                                                 versions and zone names
//
// next and prev also accept a hashSeed. All times are in milliseconds. The replies are {"at":…},
// {"none":reason} for a valid pattern without a run, {"refused":reason} for a pattern, zone or options that
// are rejected, and {"offsets":[…]}. With `-bullmq 5` the replies come from bullmq 5 and its cron-parser,
// except for upsert.

import { createRequire } from 'node:module';
import { readFlags } from './flags.mjs';
import { readLines, writeLine } from './lines.mjs';

const five = readFlags({ bullmq: 6 }).bullmq === 5;
const name = five ? 'bullmq5' : 'bullmq';
const fromHere = createRequire(import.meta.url);
const fromBullmq = createRequire(fromHere.resolve(name));
const fromCronParser = createRequire(fromBullmq.resolve('cron-parser'));
const { JobScheduler, defaultRepeatStrategy } = fromBullmq('./classes/job-scheduler.js');
const cronParser = fromBullmq('cron-parser');
const { DateTime, IANAZone } = fromCronParser('luxon');

const parse = (pattern, options) =>
  five ? cronParser.parseExpression(pattern, options) : cronParser.CronExpressionParser.parse(pattern, options);

// Cache offsets: luxon requests the same ones repeatedly, and Intl is slow.
const computeOffset = IANAZone.prototype.offset;
const offsetsOf = new Map();
IANAZone.prototype.offset = function (instant) {
  let offsets = offsetsOf.get(this.name);
  if (offsets === undefined) {
    offsetsOf.set(this.name, (offsets = new Map()));
  }
  let offset = offsets.get(instant);
  if (offset === undefined) {
    offsets.set(instant, (offset = computeOffset.call(this, instant)));
  }
  return offset;
};

function adjacent({ do: direction, pattern, tz, from, hashSeed }) {
  let expression;
  try {
    expression = parse(pattern, { currentDate: new Date(from), tz, hashSeed });
  } catch (error) {
    return { refused: String(error) };
  }
  try {
    return { at: expression[direction]().getTime() };
  } catch (error) {
    return { none: String(error) };
  }
}

/** Runs bullmq's upsertJobScheduler up to the point where it would call Redis. */
async function upsert({ options, prevMillis, now }) {
  // Import it only if it is needed: a clock that can be stopped is slow.
  const { setClock } = await import('./clock.mjs');
  let at;
  const scheduler = Object.create(JobScheduler.prototype, {
    repeatStrategy: { value: defaultRepeatStrategy },
    trace: { value: (kind, operation, destination, task) => task() },
    backend: { value: { updateJobSchedulerNextMillis: async (id, next) => void (at = next) } },
  });
  setClock(now);
  try {
    await scheduler.upsertJobScheduler('id', options, 'name', {}, { prevMillis }, { override: false });
  } catch (error) {
    return { refused: String(error) };
  } finally {
    setClock(undefined);
  }
  return at === undefined ? { none: 'no job' } : { at };
}

function zone({ tz, instants }) {
  const times = instants.map(instant => DateTime.fromMillis(instant, { zone: tz }));
  const invalid = times.find(time => !time.isValid);
  return invalid ? { refused: invalid.invalidExplanation } : { offsets: times.map(time => Math.round(time.offset * 60000)) };
}

function about() {
  const versionOf = (from, library) => from(`${library}/package.json`).version;
  return {
    versions: [
      `bullmq ${versionOf(fromHere, name)}`,
      `cron-parser ${versionOf(fromBullmq, 'cron-parser')}`,
      `luxon ${versionOf(fromCronParser, 'luxon')}`,
      `node ${process.versions.node}`,
      `time zones ${process.versions.tz}`,
    ].join(', '),
    zones: Intl.supportedValuesOf('timeZone'),
  };
}

const handlers = { next: adjacent, prev: adjacent, upsert, zone, about };
for await (const question of readLines()) {
  writeLine(await handlers[question.do](question));
}
