// A program for the tests of package nodeprocess: it does what each line of its input asks for.
import { createInterface } from 'node:readline';

const say = (value) => process.stdout.write(JSON.stringify(value) + '\n');

if (process.argv.includes('-tidy')) {
  process.on('SIGTERM', () => { say({ event: 'tidied' }); process.exit(3); });
}
if (process.argv.includes('-stubborn')) {
  process.on('SIGTERM', () => {});
  process.stdout.on('error', () => {}); // stays although nobody reads
  setTimeout(() => {}, 60_000); // nor writes
}

for await (const text of createInterface({ input: process.stdin })) {
  const { say: value, flood, raw, complain, exit } = JSON.parse(text);
  if (value !== undefined) say(value);
  for (let n = 0; n < (flood ?? 0); n++) say({ n });
  if (raw !== undefined) process.stdout.write(raw);
  if (complain !== undefined) process.stderr.write(complain + '\n');
  if (exit !== undefined) {
    // Not process.exit(): it drops what the pipe hasn't taken yet. An open input keeps a program alive.
    process.exitCode = exit;
    process.stdin.destroy();
    break;
  }
}
if (process.exitCode === undefined) say({ event: 'end of input' });
