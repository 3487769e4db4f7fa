// What the drivers in Node share: commands on standard input, events on standard output (see
// tests/languages/driver.py). Commands of one id are carried out in their order.
'use strict';

const readline = require('node:readline');
const { createRequire } = require('node:module');
const path = require('node:path');

// The libraries are in the cache, not in a folder above this file.
exports.load = (name) => createRequire(path.join(process.argv[2], 'x'))(name);

exports.Unsupported = class extends Error {};

function write(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

function describe(error) {
  const causes = [];
  for (let each = error; each; each = each.cause ?? each.errors?.[0]) {
    causes.push(`${each.name} ${each.code ?? each.type ?? ''}: ${each.message} ${each.apiId ?? ''}`);
  }
  return causes.join('; ');
}

class Events {
  constructor(id) {
    this.id = id;
  }

  record(topic, partition, offset, value) {
    write({ id: this.id, event: 'record', topic, partition, offset: Number(offset), value: String(value) });
  }

  assignment(partitions) {
    write({ id: this.id, event: 'assignment', partitions });
  }

  error(error) {
    write({ id: this.id, event: 'error', error: describe(error) });
  }
}

// `library`: subscribe(command, events) -> {commit, close}, producer(command) -> {begin, send, end},
// produce(command), describe(command); all may return promises.
exports.run = (library) => {
  const queues = new Map();
  const objects = new Map();

  async function carryOut(command) {
    const { id } = command;
    switch (command.do) {
      case 'subscribe':
        objects.set(id, await library.subscribe(command, new Events(id)));
        return {};
      case 'begin':
        if (!objects.has(id)) objects.set(id, await library.producer(command));
        await objects.get(id).begin();
        return {};
      case 'produce':
        await library.produce(command);
        return {};
      case 'describe':
        return library.describe(command);
      default:
        await objects.get(id)[command.do](command);
        return {};
    }
  }

  async function respond(command) {
    try {
      write({ ...(await carryOut(command)), n: command.n });
    } catch (error) {
      if (error instanceof exports.Unsupported) write({ n: command.n, unsupported: error.message });
      else write({ n: command.n, error: describe(error) });
    }
  }

  const input = readline.createInterface({ input: process.stdin });
  input.on('line', (line) => {
    const command = JSON.parse(line);
    const before = command.id ? queues.get(command.id) : undefined;
    const done = (before ?? Promise.resolve()).then(() => respond(command));
    if (command.id) queues.set(command.id, done);
  });
  input.on('close', () => process.exit(0));
};
