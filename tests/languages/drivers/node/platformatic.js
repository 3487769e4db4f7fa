// The driver of @platformatic/kafka.
'use strict';

const fs = require('node:fs');
const { load, run, Unsupported } = require('./protocol.js');

const { Admin, Consumer, Producer, MessagesStreamModes, MessagesStreamFallbackModes } = load('@platformatic/kafka');

function options(command) {
  const { security } = command;
  const given = {
    clientId: 'driver',
    bootstrapBrokers: command.servers.split(','),
    retries: 3,
    retryDelay: 100,
    metadataMaxAge: 500,
    autocreateTopics: false,
  };
  if (!security) return given;
  const { mechanism, user: username, password } = security;
  given.sasl = { mechanism, username, password };
  if (security.protocol === 'SASL_SSL') given.tls = { ca: [fs.readFileSync(security.ca)], host: '127.0.0.1' };
  return given;
}

async function subscribe(command, events) {
  if (command.cooperative) throw new Unsupported('no cooperative rebalances (KIP-429)');
  if (command.pattern) throw new Unsupported('no subscription to a pattern');
  const group = command.consumer_protocol
    ? { groupProtocol: 'consumer' }
    : { sessionTimeout: command.session_ms, rebalanceTimeout: command.session_ms, heartbeatInterval: command.heartbeat_ms };
  const consumer = new Consumer({
    ...options(command),
    ...group,
    groupId: command.group,
    groupInstanceId: command.instance,
    autocommit: false,
    maxWaitTime: 100,
    isolationLevel: command.read_committed ? 1 : 0,
  });
  let reported = '[]';
  const report = (assignments) => {
    const owned = (assignments ?? []).flatMap(({ topic, partitions }) => partitions.map((each) => [topic, each]));
    if (JSON.stringify(owned) !== reported) events.assignment(owned);
    reported = JSON.stringify(owned);
  };
  if (command.consumer_protocol) {
    // There is no event for a changed assignment, which comes with a heartbeat.
    consumer.on('consumer:heartbeat:end', () => report(consumer.assignments));
  } else {
    consumer.on('consumer:group:join', ({ assignments }) => report(assignments));
    consumer.on('consumer:group:rebalance', () => report([]));
  }
  const stream = await consumer.consume({
    topics: command.topics,
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST,
  });
  stream.on('data', ({ topic, partition, offset, value }) => events.record(topic, partition, offset, value));
  stream.on('error', (error) => events.error(error));
  return {
    commit: ({ topic, partition, offset }) =>
      consumer.commit({ offsets: [{ topic, partition, offset: BigInt(offset), leaderEpoch: -1 }] }),
    close: async () => {
      await stream.close();
      await consumer.close();
    },
  };
}

function messages({ topic, partition, values }) {
  return { acks: -1, messages: values.map((value) => ({ topic, partition, value: Buffer.from(value) })) };
}

async function produce(command) {
  const producer = new Producer(options(command));
  await producer.send(messages(command)).finally(() => producer.close());
}

async function producer(command) {
  const producer = new Producer({
    ...options(command),
    idempotent: true,
    transactionalId: command.transactional_id,
  });
  let transaction;
  return {
    begin: async () => {
      transaction = await producer.beginTransaction();
    },
    send: (sent) => transaction.send(messages(sent)),
    end: ({ commit }) => (commit ? transaction.commit() : transaction.abort()),
  };
}

async function describe(command) {
  const admin = new Admin(options(command));
  try {
    const listed = await admin.listGroups();
    const group = (await admin.describeGroups({ groups: [command.group] })).get(command.group);
    const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [command.group] });
    return {
      groups: [...listed.keys()],
      state: group.state,
      members: group.members.size,
      offsets: topics.flatMap(({ name, partitions }) =>
        partitions.map((each) => [name, each.partitionIndex, Number(each.committedOffset)]),
      ),
    };
  } finally {
    await admin.close();
  }
}

run({ subscribe, producer, produce, describe });
