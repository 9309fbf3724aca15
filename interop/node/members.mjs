// Lists what bullmq 6 offers: its exported classes, and the public members of those classes and of the types
// named on the command line. It writes one JSON object to standard output:
// {"classes":["Queue",…],"members":{"Queue":{"add":"call","opts":"value",…},…}}.
//
//   node members.mjs Queue Worker QueueOptions …
//
// Only the package's declarations (.d.ts) state which members are public. The program checks that each class
// has the declared methods. An inherited member is listed under the class that declares it.

import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const manifest = createRequire(import.meta.url).resolve('bullmq/package.json');
const { types } = JSON.parse(readFileSync(manifest, 'utf8'));
const library = await import('bullmq');

/** The text of all declarations, without comments. */
const declarations = (function read(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap(file => {
    const path = join(folder, file.name);
    if (file.isDirectory()) {
      return read(path);
    }
    return file.name.endsWith('.d.ts') ? [readFileSync(path, 'utf8').replaceAll(/\/\*[^]*?\*\//g, '')] : [];
  });
})(dirname(join(dirname(manifest), types))).join('\n');

/** Returns the lines between a type's braces. Only a closing brace at the start of a line ends it. */
function bodyOf(name) {
  const head = new RegExp(`^export (?:declare )?(?:class|interface|type) ${name}\\b[^]*?[{]$`, 'm').exec(declarations);
  if (!head) {
    throw new Error(`bullmq declares no type ${name}`);
  }
  const lines = declarations.slice(head.index + head[0].length).split('\n');
  return lines.slice(0, lines.findIndex(line => /^\}(?! &)/.test(line)));
}

/** Returns the public members that a type declares itself, in order. */
function membersOf(name) {
  const found = new Map();
  for (const line of bodyOf(name)) {
    const [, words, member, after] = /^ {4}((?:\w+ )*)('[^']+'|\w+)([?]?[(<:;]|\?:)/.exec(line) ?? [];
    const hidden = /private|protected/.test(words) || member?.startsWith('_') || member === 'constructor';
    if (member && !hidden) {
      const accessor = /\b[gs]et /.test(words);
      found.set(member.replaceAll("'", ''), {
        kind: /[(<]/.test(after) && !accessor ? 'call' : 'value',
        owner: /\bstatic /.test(words) ? 'class' : /[(<]/.test(after) ? 'prototype' : 'object',
      });
    }
  }
  return found;
}

const isClass = value => typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

const members = {};
for (const name of process.argv.slice(2)) {
  const declared = membersOf(name);
  members[name] = Object.fromEntries([...declared].map(([member, { kind }]) => [member, kind]));
  const type = library[name];
  for (const [member, { owner }] of isClass(type) ? declared : []) {
    if (owner !== 'object' && !(member in (owner === 'class' ? type : type.prototype))) {
      throw new Error(`bullmq declares ${name}.${member} but does not define it`);
    }
  }
}
const classes = Object.keys(library).filter(name => isClass(library[name]));
process.stdout.write(JSON.stringify({ classes, members }) + '\n');
