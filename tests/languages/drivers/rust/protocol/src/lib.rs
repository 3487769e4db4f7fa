//! What the drivers in Rust share: commands on standard input, events on standard output (see
//! tests/languages/driver.py). Each consumer and producer has its own thread, which polls it and
//! carries out its commands between two polls.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub enum Failure {
    Unsupported(&'static str),
    Error(String),
}

impl<E: std::fmt::Debug> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Error(format!("{error:?}"))
    }
}

pub type Outcome<T> = Result<T, Failure>;

pub trait Member {
    fn poll(&self) -> Outcome<()>;
    fn commit(&self, topic: &str, partition: i32, offset: i64) -> Outcome<()>;
    fn close(&self) -> Outcome<()>;
}

pub trait TransactionalProducer {
    fn begin(&self) -> Outcome<()>;
    fn send(&self, command: &Command) -> Outcome<()>;
    fn end(&self, commit: bool) -> Outcome<()>;
}

pub trait Library: Send + Sync + 'static {
    fn subscribe(&self, command: &Command, events: Events) -> Outcome<Box<dyn Member>>;
    fn produce(&self, command: &Command) -> Outcome<()>;
    fn producer(&self, command: &Command) -> Outcome<Box<dyn TransactionalProducer>>;
    /// Returns an object with groups, state, members, offsets.
    fn describe(&self, command: &Command) -> Outcome<Value>;
}

pub struct Command(Value);

impl Command {
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    pub fn number(&self, key: &str) -> i64 {
        self.0[key].as_i64().unwrap_or_default()
    }

    pub fn has(&self, key: &str) -> bool {
        !self.0[key].is_null()
    }

    pub fn texts(&self, key: &str) -> Vec<&str> {
        self.0[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The settings of SASL and TLS.
    pub fn security(&self) -> Option<Command> {
        self.has("security").then(|| Command(self.0["security"].clone()))
    }
}

fn write(event: Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{event}").and_then(|()| output.flush()).expect("the story reads it");
}

/// The events of one member, which also keep its partitions.
#[derive(Clone)]
pub struct Events {
    id: String,
    owned: Arc<Mutex<BTreeSet<(String, i32)>>>,
}

impl Events {
    pub fn record(&self, topic: &str, partition: i32, offset: i64, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        write(json!({"id": self.id, "event": "record", "topic": topic, "partition": partition,
                     "offset": offset, "value": value}));
    }

    pub fn assigned(&self, partitions: impl IntoIterator<Item = (String, i32)>) {
        let mut owned = self.owned.lock().unwrap();
        owned.extend(partitions);
        write(json!({"id": self.id, "event": "assignment", "partitions": *owned}));
    }

    pub fn revoked(&self, partitions: impl IntoIterator<Item = (String, i32)>) {
        let mut owned = self.owned.lock().unwrap();
        for each in partitions {
            owned.remove(&each);
        }
        write(json!({"id": self.id, "event": "assignment", "partitions": *owned}));
    }

    pub fn error(&self, error: impl std::fmt::Debug) {
        write(json!({"id": self.id, "event": "error", "error": format!("{error:?}")}));
    }
}

fn respond(command: &Command, outcome: Outcome<Value>) {
    let mut result = match outcome {
        Ok(found) => found,
        Err(Failure::Unsupported(reason)) => json!({"unsupported": reason}),
        Err(Failure::Error(error)) => json!({"error": error}),
    };
    result["n"] = command.0["n"].clone();
    write(result);
}

/// The thread of a consumer or transactional producer.
fn run_thread(library: Arc<dyn Library>, id: String, commands: Receiver<Command>) {
    let events = Events { id, owned: Arc::default() };
    let mut member: Option<Box<dyn Member>> = None;
    let mut producer: Option<Box<dyn TransactionalProducer>> = None;
    loop {
        let received = match &member {
            None => commands.recv().map_err(|RecvError| TryRecvError::Disconnected),
            Some(_) => commands.try_recv(),
        };
        let command = match (received, &member) {
            (Ok(command), _) => command,
            (Err(TryRecvError::Empty), Some(polled)) => {
                if let Err(Failure::Error(error)) = polled.poll() {
                    events.error(error);
                }
                continue;
            }
            _ => return,
        };
        let mut carry_out = || -> Outcome<()> {
            match command.text("do") {
                "subscribe" => member = Some(library.subscribe(&command, events.clone())?),
                "commit" => {
                    let member = member.as_ref().ok_or("closed")?;
                    let partition = command.number("partition") as i32;
                    member.commit(command.text("topic"), partition, command.number("offset"))?;
                }
                "close" => {
                    if let Some(closing) = member.take() {
                        closing.close()?; // otherwise it could not subscribe
                    }
                }
                "begin" => {
                    if producer.is_none() {
                        producer = Some(library.producer(&command)?);
                    }
                    producer.as_ref().ok_or("no producer")?.begin()?;
                }
                "send" => producer.as_ref().ok_or("no producer")?.send(&command)?,
                _ => producer.as_ref().ok_or("no producer")?.end(command.0["commit"] == json!(true))?,
            }
            Ok(())
        };
        let outcome = carry_out();
        respond(&command, outcome.map(|()| json!({})));
    }
}

/// Carries out the commands until the input ends.
pub fn run(library: impl Library) {
    let library: Arc<dyn Library> = Arc::new(library);
    let mut threads: HashMap<String, Sender<Command>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let text = line.expect("the input is text");
        let command = Command(serde_json::from_str(&text).expect("a command is JSON"));
        let library = library.clone();
        if command.has("id") {
            let id = command.text("id").to_owned();
            let thread = threads.entry(id.clone()).or_insert_with(|| {
                let (sender, receiver) = channel();
                std::thread::spawn(move || run_thread(library, id, receiver));
                sender
            });
            thread.send(command).expect("the thread runs until the end");
            continue;
        }
        std::thread::spawn(move || {
            let outcome = match command.text("do") {
                "describe" => library.describe(&command),
                _ => library.produce(&command).map(|()| json!({})),
            };
            respond(&command, outcome);
        });
    }
    std::process::exit(0);
}
