// JSON lines: one value per line on standard input and standard output.

import { createInterface } from 'node:readline';

// Standard output is reserved for the protocol, whatever a library prints.
console.log = console.info = console.debug = console.error;

/** Writes one value as a line. */
export function writeLine(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Yields the values of standard input, line by line, until it ends or the signal is aborted. */
export async function* readLines({ signal } = {}) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity, signal })) {
    if (line.trim() !== '') {
      yield JSON.parse(line);
    }
  }
}

/** Ends the program once its output has been read: process.exit alone would discard it. */
export function leave(status = 0) {
  process.stdout.end(() => process.exit(status));
}
