// A broker in its own process, and its control API (docs/control.md).
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export async function startKohort() {
  const serve = 'serve --port 0 --control-port 0 --control-preset instant --log-level error';
  const broker = spawn('kohort', serve.split(' '), { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: broker.stdout })[Symbol.asyncIterator]();
  const after = async (prefix) => {
    const { value } = await lines.next();
    const found = new RegExp(`${prefix}(\\S+)`).exec(value);
    if (!found) throw new Error(`kohort did not start: ${value}`);
    return found[1];
  };
  const bootstrapServers = await after('listening on ');
  const control = await after('control ');

  // Throws the response's error if its status is not 200.
  async function request(method, path, parameters) {
    const body = parameters && JSON.stringify(parameters);
    const response = await fetch(control + path, { method, body });
    const result = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${result.error}`);
    return result;
  }

  return {
    bootstrapServers,
    get: (path) => request('GET', path),
    post: (path, parameters) => request('POST', path, parameters),
    async close() {
      broker.kill();
      await once(broker, 'exit');
    },
  };
}
