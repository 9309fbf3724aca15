// When a program that runs until it is told to stop has been told.

import { fstatSync } from 'node:fs';

/**
 * Resolves with the reason on SIGTERM, SIGINT, or when the pipe on standard input is closed, which
 * is also what happens when the program that started this one dies. Anything else on standard input
 * (a terminal, /dev/null) isn't listened to.
 */
export function askedToStop() {
  return new Promise(resolve => {
    process.once('SIGTERM', () => resolve('SIGTERM'));
    process.once('SIGINT', () => resolve('SIGINT'));
    const input = fstatSync(0);
    if (input.isFIFO() || input.isSocket()) {
      process.stdin.once('end', () => resolve('end of input'));
      process.stdin.once('error', () => resolve('end of input'));
      process.stdin.resume();
    }
  });
}
