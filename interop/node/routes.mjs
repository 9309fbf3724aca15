// Computes the names of routes, as a Node producer does.
//
//   node routes.mjs
//
// The first line written is {"event":"ready"}. Each line of standard input is {"queue","target"}, and the line written for it is
// {"route"}. docs/routing.md has the function.

import { leave, readLines, writeLine } from './lines.mjs';

const routeOf = (queue, { server, stack, region, capabilities = [], mode } = {}) => {
  const needs = server ? [`server=${server}`] : [...capabilities, stack && `stack=${stack}`, region && `region=${region}`];
  const sorted = [...new Set(needs.filter(Boolean).map(need => need.toLowerCase()))].sort();
  return sorted.length ? `${queue}@${sorted.join(mode === 'any' ? '|' : '+')}` : queue;
};

writeLine({ event: 'ready' });
for await (const { queue, target } of readLines()) {
  writeLine({ route: routeOf(queue, target) });
}
leave();
