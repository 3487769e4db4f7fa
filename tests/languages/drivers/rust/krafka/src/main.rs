//! The driver of krafka. All clients share an asynchronous runtime; their methods are called from
//! the threads of the driver.

use std::future::Future;
use std::sync::LazyLock;
use std::time::Duration;

use krafka::auth::{AuthConfig, TlsConfig};
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, GroupProtocol, IsolationLevel, OffsetAndMetadata,
    PartitionAssignmentStrategy, TopicPartition,
};
use krafka::{Kafka, Record};
use protocol::{Command, Events, Failure, Library, Member, Outcome, TransactionalProducer};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Runtime::new().expect("threads can be started"));

fn wait<T, E: std::fmt::Debug>(future: impl Future<Output = Result<T, E>>) -> Outcome<T> {
    let limited = RUNTIME.block_on(async { tokio::time::timeout(TIMEOUT, future).await });
    limited.map_err(|_| Failure::Error("timed out".into()))?.map_err(|error| Failure::Error(format!("{error:?}")))
}

fn connect(command: &Command) -> Outcome<Kafka> {
    let mut builder = Kafka::builder(command.text("servers")).metadata_max_age(Duration::from_millis(500));
    if let Some(security) = command.security() {
        let (user, password) = (security.text("user"), security.text("password"));
        let mut auth = match security.text("mechanism") {
            "PLAIN" => AuthConfig::sasl_plain(user, password),
            _ => AuthConfig::sasl_scram_sha512(user, password),
        };
        if security.text("protocol") == "SASL_SSL" {
            auth = auth.with_tls(TlsConfig::new().with_ca_cert(security.text("ca")));
        }
        builder = builder.security(auth);
    }
    wait(builder.connect())
}

struct Rebalances(Events);

fn pairs(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, i32)> {
    partitions.iter().map(|each| (each.topic.to_string(), each.partition))
}

impl ConsumerRebalanceListener for Rebalances {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        self.0.assigned(pairs(partitions));
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        self.0.revoked(pairs(partitions));
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        self.0.revoked(pairs(partitions));
    }
}

struct Polled {
    consumer: Consumer,
    events: Events,
}

impl Member for Polled {
    fn poll(&self) -> Outcome<()> {
        for record in wait(self.consumer.poll(POLL))? {
            let value = record.value.as_deref().unwrap_or_default();
            self.events.record(&record.topic, record.partition, record.offset, value);
        }
        Ok(())
    }

    fn commit(&self, topic: &str, partition: i32, offset: i64) -> Outcome<()> {
        let at = (TopicPartition::new(topic, partition), OffsetAndMetadata::new(offset));
        wait(self.consumer.commit_offsets([at]))
    }

    fn close(&self) -> Outcome<()> {
        wait(self.consumer.close())
    }
}

struct Transactions(krafka::producer::TransactionalProducer);

fn records(command: &Command) -> impl Iterator<Item = Record> {
    let partition = command.number("partition") as i32;
    command
        .texts("values")
        .into_iter()
        .map(move |value| Record::new(command.text("topic"), value.to_owned()).partition(partition))
}

impl TransactionalProducer for Transactions {
    fn begin(&self) -> Outcome<()> {
        Ok(self.0.begin()?)
    }

    fn send(&self, command: &Command) -> Outcome<()> {
        for record in records(command) {
            wait(self.0.send(record))?;
        }
        Ok(())
    }

    fn end(&self, commit: bool) -> Outcome<()> {
        if commit { wait(self.0.commit()) } else { wait(self.0.abort()) }
    }
}

struct Krafka;

impl Library for Krafka {
    fn subscribe(&self, command: &Command, events: Events) -> Outcome<Box<dyn Member>> {
        if command.has("pattern") {
            return Err(Failure::Unsupported("no subscription to a pattern"));
        }
        let isolation =
            if command.has("read_committed") { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
        let mut builder = connect(command)?
            .consumer(command.text("group"))
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .enable_auto_commit(false)
            .fetch_max_wait(Duration::from_millis(100))
            .isolation_level(isolation)
            .rebalance_listener(Rebalances(events.clone()));
        if command.has("instance") {
            builder = builder.group_instance_id(command.text("instance"));
        }
        if command.has("consumer_protocol") {
            builder = builder.group_protocol(GroupProtocol::Consumer);
        } else {
            let strategy = match command.has("cooperative") {
                true => PartitionAssignmentStrategy::CooperativeSticky,
                false => PartitionAssignmentStrategy::Range,
            };
            builder = builder
                .partition_assignment_strategy(strategy)
                .session_timeout(Duration::from_millis(command.number("session_ms") as u64))
                .heartbeat_interval(Duration::from_millis(command.number("heartbeat_ms") as u64));
        }
        let consumer = wait(builder.build())?;
        wait(consumer.subscribe(command.texts("topics")))?;
        Ok(Box::new(Polled { consumer, events }))
    }

    fn produce(&self, command: &Command) -> Outcome<()> {
        let producer = wait(connect(command)?.producer().build())?;
        for record in records(command) {
            wait(producer.send(record))?;
        }
        wait(producer.close())
    }

    fn producer(&self, command: &Command) -> Outcome<Box<dyn TransactionalProducer>> {
        let producer = connect(command)?.producer().build_transactional(command.text("transactional_id"));
        Ok(Box::new(Transactions(wait(producer)?)))
    }

    fn describe(&self, command: &Command) -> Outcome<Value> {
        let admin = connect(command)?.admin();
        let name = command.text("group");
        let mut groups = Vec::new();
        for (_, listed) in wait(admin.list_consumer_groups(Default::default()))? {
            groups.extend(listed?.into_iter().map(|each| each.group_id));
        }
        let mut described = wait(admin.describe_consumer_groups([name], Default::default()))?;
        let group = described.remove(name).ok_or("not described")??;
        let mut offsets = Vec::new();
        for (at, committed) in wait(admin.list_consumer_group_offsets(name, Default::default()))? {
            offsets.push(json!([at.topic.to_string(), at.partition, committed?.offset]));
        }
        Ok(json!({"groups": groups, "state": group.state, "members": group.members.len(), "offsets": offsets}))
    }
}

fn main() {
    protocol::run(Krafka);
}
