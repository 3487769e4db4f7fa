// A test of a Kafka consumer in Node, against a broker that the test controls: `npm test`.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import kafkajs from 'kafkajs';
import { startKohort } from './kohort.js';

let kohort;
before(async () => { kohort = await startKohort(); });
after(() => kohort.close());
beforeEach(() => kohort.post('/reset'));

// The service under test.
async function startService(bootstrapServers) {
  const kafka = new kafkajs.Kafka({
    clientId: 'billing',
    brokers: bootstrapServers.split(','),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 20 },
  });
  const consumer = kafka.consumer({ groupId: 'billing', heartbeatInterval: 100, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true });
  await consumer.run({ autoCommitThreshold: 1, eachMessage: async () => {} });
  return consumer;
}

test('a service commits although its coordinator moves, and rejoins after its session has expired', async () => {
  await kohort.post('/topics/orders', { partitions: 2 });
  await kohort.post('/topics/orders/records', { values: ['espresso', 'tea'], partition: 0 });
  await kohort.post('/faults', {
    action: 'answer', api: 'OffsetCommit', error: 'NOT_COORDINATOR', group: 'billing', times: 2,
  });
  const service = await startService(kohort.bootstrapServers);
  try {
    await kohort.post('/groups/billing/wait', { until: 'stable', members: 1 });
    await kohort.post('/groups/billing/wait', {
      until: 'committed', topic: 'orders', partition: 0, offset: 2,
    });
    await kohort.post('/faults/check'); // fails unless the fault has fired twice

    await kohort.post('/clock/advance', { seconds: 31 }); // its session timeout is 30 s, kafkajs' default
    await kohort.post('/groups/billing/wait', { until: 'stable', members: 1 });
    const { generations } = await kohort.get('/groups/billing/generations');
    assert.ok(generations.some((each) => each.cause === 'session expired'));
  } finally {
    await service.disconnect();
  }
});
