//! The driver of rdkafka, with the librdkafka that it brings.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::{Command, Events, Failure, Library, Member, Outcome, TransactionalProducer};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

fn config(command: &Command) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", command.text("servers"));
    config.set("retry.backoff.ms", "20").set("reconnect.backoff.ms", "20");
    if let Some(security) = command.security() {
        config.set("security.protocol", security.text("protocol"));
        config.set("sasl.mechanism", security.text("mechanism"));
        config.set("sasl.username", security.text("user"));
        config.set("sasl.password", security.text("password"));
        config.set("ssl.ca.location", security.text("ca"));
    }
    config
}

struct Rebalances(Events);

impl ClientContext for Rebalances {}

fn partitions(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|each| (each.topic().to_owned(), each.partition())).collect()
}

impl ConsumerContext for Rebalances {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            self.0.revoked(partitions(list));
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            self.0.assigned(partitions(list));
        }
    }
}

struct Polled {
    consumer: BaseConsumer<Rebalances>,
    events: Events,
}

impl Member for Polled {
    fn poll(&self) -> Outcome<()> {
        if let Some(received) = self.consumer.poll(POLL) {
            let message = received?;
            let value = message.payload().unwrap_or_default();
            self.events.record(message.topic(), message.partition(), message.offset(), value);
        }
        Ok(())
    }

    fn commit(&self, topic: &str, partition: i32, offset: i64) -> Outcome<()> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        Ok(self.consumer.commit(&offsets, CommitMode::Sync)?)
    }

    fn close(&self) -> Outcome<()> {
        self.consumer.unsubscribe(); // dropping it closes it
        Ok(())
    }
}

/// Keeps the errors of deliveries and connections.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Errors {
    fn check(&self) -> Outcome<()> {
        match self.0.lock().unwrap().pop() {
            Some(error) => Err(Failure::Error(error)),
            None => Ok(()),
        }
    }
}

impl ClientContext for Errors {
    fn error(&self, error: KafkaError, reason: &str) {
        if !matches!(error, KafkaError::Global(rdkafka::types::RDKafkaErrorCode::AllBrokersDown)) {
            self.0.lock().unwrap().push(format!("{error:?}: {reason}"));
        }
    }
}

impl ProducerContext for Errors {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap().push(format!("{error:?}"));
        }
    }
}

struct Transactions(BaseProducer<Errors>, Errors);

fn send(producer: &BaseProducer<Errors>, errors: &Errors, command: &Command) -> Outcome<()> {
    for value in command.texts("values") {
        let record = BaseRecord::<(), str>::to(command.text("topic")).payload(value);
        let sent = producer.send(record.partition(command.number("partition") as i32));
        sent.map_err(|(error, _)| error)?;
    }
    producer.flush(TIMEOUT)?;
    errors.check()
}

impl TransactionalProducer for Transactions {
    fn begin(&self) -> Outcome<()> {
        Ok(self.0.begin_transaction()?)
    }

    fn send(&self, command: &Command) -> Outcome<()> {
        send(&self.0, &self.1, command)
    }

    fn end(&self, commit: bool) -> Outcome<()> {
        Ok(if commit { self.0.commit_transaction(TIMEOUT)? } else { self.0.abort_transaction(TIMEOUT)? })
    }
}

struct Rdkafka;

impl Library for Rdkafka {
    fn subscribe(&self, command: &Command, events: Events) -> Outcome<Box<dyn Member>> {
        let mut config = config(command);
        config.set("group.id", command.text("group"));
        config.set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
        config.set("topic.metadata.refresh.interval.ms", "500").set("fetch.wait.max.ms", "100");
        let isolation = if command.has("read_committed") { "read_committed" } else { "read_uncommitted" };
        config.set("isolation.level", isolation);
        if command.has("instance") {
            config.set("group.instance.id", command.text("instance"));
        }
        if command.has("consumer_protocol") {
            config.set("group.protocol", "consumer");
        } else {
            let assignor = if command.has("cooperative") { "cooperative-sticky" } else { "range" };
            config.set("partition.assignment.strategy", assignor);
            config.set("session.timeout.ms", command.number("session_ms").to_string());
            config.set("heartbeat.interval.ms", command.number("heartbeat_ms").to_string());
        }
        let consumer: BaseConsumer<_> = config.create_with_context(Rebalances(events.clone()))?;
        let topics = if command.has("pattern") { vec![command.text("pattern")] } else { command.texts("topics") };
        consumer.subscribe(&topics)?;
        Ok(Box::new(Polled { consumer, events }))
    }

    fn produce(&self, command: &Command) -> Outcome<()> {
        let errors = Errors::default();
        let producer: BaseProducer<_> = config(command).create_with_context(errors.clone())?;
        // A rejected login is otherwise retried until the record's timeout.
        if let Err(error) = producer.client().fetch_metadata(None, Duration::from_secs(3)) {
            for _ in 0..10 {
                producer.poll(POLL); // one event
                errors.check()?;
            }
            return Err(error.into());
        }
        send(&producer, &errors, command)
    }

    fn producer(&self, command: &Command) -> Outcome<Box<dyn TransactionalProducer>> {
        let errors = Errors::default();
        let mut config = config(command);
        config.set("transactional.id", command.text("transactional_id"));
        let producer: BaseProducer<_> = config.create_with_context(errors.clone())?;
        producer.init_transactions(TIMEOUT)?;
        Ok(Box::new(Transactions(producer, errors)))
    }

    /// The library has no admin operations for groups; its consumers have these.
    fn describe(&self, command: &Command) -> Outcome<Value> {
        let name = command.text("group");
        let consumer: BaseConsumer = config(command).set("group.id", name).create()?;
        let listed = consumer.fetch_group_list(None, TIMEOUT)?;
        let found = listed.groups().iter().find(|each| each.name() == name).ok_or("not listed")?;
        let metadata = consumer.fetch_metadata(None, TIMEOUT)?;
        let mut requested = TopicPartitionList::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                requested.add_partition(topic.name(), partition.id());
            }
        }
        let committed = consumer.committed_offsets(requested, TIMEOUT)?;
        let offsets: Vec<_> = committed
            .elements()
            .iter()
            .filter_map(|each| {
                Some(json!([each.topic(), each.partition(), each.offset().to_raw().filter(|at| *at >= 0)?]))
            })
            .collect();
        let groups: Vec<_> = listed.groups().iter().map(|each| each.name()).collect();
        Ok(json!({"groups": groups, "state": found.state(), "members": found.members().len(), "offsets": offsets}))
    }
}

fn main() {
    protocol::run(Rdkafka);
}
