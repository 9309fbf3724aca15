// Flags of the programs in this folder, in Go's syntax: -name value.

import { Cluster } from 'ioredis';

/**
 * Reads process.argv with a table of {name: default}. A number as default makes the flag a
 * number, a boolean makes it a switch (-name or -name=false), and `undefined` makes it an
 * optional text. An unknown flag ends the program: ignoring a misspelled flag could let a test
 * pass for the wrong reason.
 */
export function readFlags(defaults, argv = process.argv.slice(2)) {
  const flags = { ...defaults };
  for (let index = 0; index < argv.length; index++) {
    const match = /^--?([a-z0-9-]+)(?:=(.*))?$/s.exec(argv[index]);
    const name = match?.[1];
    if (!match || !Object.hasOwn(defaults, name)) {
      refuse(`unknown flag ${argv[index]}; use ${Object.keys(defaults).map(known => `-${known}`).join(' ')}`);
    }
    if (typeof defaults[name] === 'boolean') {
      flags[name] = match[2] !== 'false';
      continue;
    }
    const text = match[2] ?? argv[++index];
    if (text === undefined) {
      refuse(`flag -${name} needs a value`);
    }
    flags[name] = typeof defaults[name] === 'number' ? Number(text) : text;
    if (Number.isNaN(flags[name])) {
      refuse(`flag -${name} must be a number, not ${text}`);
    }
  }
  return flags;
}

/**
 * Parses -redis: HOST:PORT, sentinel:MASTER@HOST:PORT,… or cluster:HOST:PORT,…. For a cluster it
 * returns a connection, and otherwise connection options.
 */
export function connectionOptions(address) {
  const [, kind, master, nodes] = /^(sentinel|cluster):(?:(.+)@)?(.+)$/.exec(address ?? '') ?? [];
  // bullmq requires this option for a worker's connection.
  const endless = { maxRetriesPerRequest: null };
  switch (kind) {
    case 'sentinel':
      return { ...endless, name: master, sentinels: nodes.split(',').map(hostAndPort) };
    case 'cluster':
      return new Cluster(nodes.split(',').map(hostAndPort), { redisOptions: endless });
    default:
      return { ...endless, ...hostAndPort(address) };
  }
}

function hostAndPort(address) {
  const match = /^(.+):(\d+)$/.exec(address ?? '');
  if (!match) {
    refuse(`-redis must be HOST:PORT, not ${address}`);
  }
  return { host: match[1].replace(/^\[|\]$/g, ''), port: Number(match[2]) };
}

function refuse(message) {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
