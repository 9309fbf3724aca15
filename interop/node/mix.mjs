// A mix of jobs of every kind, determined by a seed.

/**
 * Yields job specs {name, data, opts}. The name is the kind. The data contains a `sequence` number
 * that identifies the job whatever its id. Jobs that must fail at first have `failUntilAttempt`.
 */
export function* mixOfJobs(count, seed) {
  const random = randomNumbers(seed);
  const whole = (from, to) => from + Math.floor(random() * (to - from + 1));
  const pick = list => list[whole(0, list.length - 1)];
  for (let sequence = 0; sequence < count; sequence++) {
    const name = pick(Object.keys(KINDS));
    const { data, opts } = KINDS[name]({ sequence, seed, whole, pick });
    yield { name, data: { sequence, ...data, payload: pick(PAYLOADS) }, opts };
  }
}

const KINDS = {
  standard: () => ({ opts: {} }),
  delayed: ({ whole }) => ({ opts: { delay: whole(0, 300) } }),
  prioritised: ({ whole }) => ({ opts: { priority: whole(1, 20) } }),
  lifo: () => ({ opts: { lifo: true } }),
  retried: ({ whole, pick }) => ({
    data: { failUntilAttempt: whole(2, 3) },
    opts: {
      attempts: 3,
      ...pick([
        {},
        { backoff: whole(10, 40) },
        { backoff: { type: 'fixed', delay: whole(10, 40) } },
        { backoff: { type: 'exponential', delay: whole(5, 20) } },
        { backoff: { type: 'exponential', delay: whole(5, 20), jitter: 0.5 }, priority: whole(1, 5) },
      ]),
    },
  }),
  'custom-id': ({ sequence, seed }) => ({ opts: { jobId: `job-${seed}-${sequence}` } }),
  removed: ({ pick }) => ({ opts: { removeOnComplete: pick([true, 0, { count: 0 }]) } }),
  kept: ({ pick }) => ({
    opts: { removeOnComplete: pick([false, { count: 100000 }, { age: 3600 }, { age: 3600, count: 100000 }]) },
  }),
};

const PAYLOADS = [
  null, 0, -1.5, 9007199254740991, '', 'text', true, false, [], {},
  'señor 日本語 😀 👩‍👩‍👧',
  '<a href="x">1 & 2 > 0</a>',
  'line\u2028separator "quoted" back\\slash \u0001\t\n',
  { nested: { list: [1, [2, { deep: null }]], empty: {}, none: [] }, 'key <&> é': 1 },
  [{ id: 1, tags: ['a', 'b'] }, { id: 2, tags: [] }],
  'x'.repeat(2000),
];

/** A random generator: numbers from 0 to below 1, determined by the seed (linear congruential). */
function randomNumbers(seed) {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // The upper bits are more random.
    return (state >>> 8) / 2 ** 24;
  };
}
