// A broker in a process of its own, and its controls: docs/control.md lists what can be asked.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export async function startKohort() {
  const serve = 'serve --port 0 --control-port 0 --control-preset instant --log-level error';
  const broker = spawn('kohort', serve.split(' '), { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: broker.stdout })[Symbol.asyncIterator]();
  const after = async (words) => {
    const { value } = await lines.next();
    const found = new RegExp(`${words}(\\S+)`).exec(value);
    if (!found) throw new Error(`kohort did not start: ${value}`);
    return found[1];
  };
  const bootstrapServers = await after('listening on ');
  const control = await after('control ');

  // Anything but 200 is a failure of the test, with the sentence that says why.
  async function ask(method, path, given) {
    const body = given && JSON.stringify(given);
    const answer = await fetch(control + path, { method, body });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${said.error}`);
    return said;
  }

  return {
    bootstrapServers,
    get: (path) => ask('GET', path),
    post: (path, given) => ask('POST', path, given),
    async close() {
      broker.kill();
      await once(broker, 'exit');
    },
  };
}
