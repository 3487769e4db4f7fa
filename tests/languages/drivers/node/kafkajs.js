// The driver of kafkajs.
'use strict';

const fs = require('node:fs');
const { load, run, Unsupported } = require('./protocol.js');

const { Kafka, logLevel } = load('kafkajs');

function connect(command) {
  const { security } = command;
  const config = {
    brokers: command.servers.split(','),
    logLevel: logLevel.ERROR,
    logCreator: () => (entry) => process.stderr.write(JSON.stringify(entry) + '\n'),
    retry: { initialRetryTime: 50, maxRetryTime: 500 },
    // Its default, 30 s, ends with the timeout of the stories.
    requestTimeout: 10000,
  };
  if (security) {
    config.sasl = { mechanism: security.mechanism.toLowerCase(), username: security.user, password: security.password };
    if (security.protocol === 'SASL_SSL') config.ssl = { ca: [fs.readFileSync(security.ca, 'utf-8')] };
  }
  return new Kafka(config);
}

async function subscribe(command, events) {
  if (command.instance) throw new Unsupported('no static members (KIP-345)');
  if (command.cooperative) throw new Unsupported('no cooperative rebalances (KIP-429)');
  if (command.consumer_protocol) throw new Unsupported('no consumer protocol (KIP-848)');
  const consumer = connect(command).consumer({
    groupId: command.group,
    sessionTimeout: command.session_ms,
    rebalanceTimeout: command.session_ms,
    heartbeatInterval: command.heartbeat_ms,
    metadataMaxAge: 500,
    maxWaitTimeInMs: 100,
    readUncommitted: !command.read_committed,
  });
  const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events;
  consumer.on(GROUP_JOIN, ({ payload }) => {
    const topics = Object.entries(payload.memberAssignment);
    events.assignment(topics.flatMap(([topic, numbers]) => numbers.map((number) => [topic, number])));
  });
  consumer.on(REBALANCING, () => events.assignment([]));
  consumer.on(CRASH, ({ payload }) => events.error(payload.error));
  await consumer.connect();
  const topics = command.pattern ? [new RegExp(command.pattern)] : command.topics;
  await consumer.subscribe({ topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => events.record(topic, partition, message.offset, message.value),
  });
  return {
    commit: ({ topic, partition, offset }) => consumer.commitOffsets([{ topic, partition, offset: String(offset) }]),
    close: () => consumer.disconnect(),
  };
}

function messages({ topic, partition, values }) {
  return { topic, acks: -1, messages: values.map((value) => ({ value, partition })) };
}

async function produce(command) {
  const producer = connect(command).producer();
  await producer.connect();
  await producer.send(messages(command)).finally(() => producer.disconnect());
}

async function producer(command) {
  const producer = connect(command).producer({
    transactionalId: command.transactional_id,
    maxInFlightRequests: 1,
    idempotent: true,
  });
  await producer.connect();
  let transaction;
  return {
    begin: async () => {
      transaction = await producer.transaction();
    },
    send: (sent) => transaction.send(messages(sent)),
    end: ({ commit }) => (commit ? transaction.commit() : transaction.abort()),
  };
}

async function describe(command) {
  const admin = connect(command).admin();
  await admin.connect();
  try {
    const { groups } = await admin.listGroups();
    const [group] = (await admin.describeGroups([command.group])).groups;
    const offsets = await admin.fetchOffsets({ groupId: command.group });
    return {
      groups: groups.map((each) => each.groupId),
      state: group.state,
      members: group.members.length,
      offsets: offsets.flatMap(({ topic, partitions }) => partitions.map((each) => [topic, each.partition, Number(each.offset)])),
    };
  } finally {
    await admin.disconnect();
  }
}

run({ subscribe, producer, produce, describe });
