/* The driver of librdkafka in C: see tests/languages/driver.py. Each consumer and producer has its own
 * thread, which polls it and carries out its commands between two polls. */
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 20000, POLL_MS = 50, TEXT = 1024, THREADS = 256 };

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static void write_event(json_t *event) {
  char *line = json_dumps(event, JSON_COMPACT);
  pthread_mutex_lock(&output);
  puts(line);
  fflush(stdout);
  pthread_mutex_unlock(&output);
  free(line);
  json_decref(event);
}

static const char *text(json_t *command, const char *key) { return json_string_value(json_object_get(command, key)); }

static int is_given(json_t *command, const char *key) { return json_object_get(command, key) != NULL; }

/* A command fails with a text in `error`, which is empty otherwise. */
typedef char reason_t[TEXT];

static void failed(reason_t error, rd_kafka_resp_err_t code, const char *message) {
  if (code) snprintf(error, TEXT, "%s: %s", rd_kafka_err2name(code), message ? message : rd_kafka_err2str(code));
}

static void failed_with(reason_t error, rd_kafka_error_t *problem) {
  if (!problem) return;
  snprintf(error, TEXT, "%s: %s", rd_kafka_error_name(problem), rd_kafka_error_string(problem));
  rd_kafka_error_destroy(problem);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
  char problem[TEXT];
  if (rd_kafka_conf_set(conf, key, value, problem, sizeof problem) != RD_KAFKA_CONF_OK) {
    fprintf(stderr, "%s\n", problem);
    abort();
  }
}

static void set_number(rd_kafka_conf_t *conf, const char *key, json_t *value) {
  char number[32];
  snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
  set(conf, key, number);
}

static rd_kafka_conf_t *new_conf(json_t *command) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  json_t *security = json_object_get(command, "security");
  set(conf, "bootstrap.servers", text(command, "servers"));
  set(conf, "retry.backoff.ms", "20");
  set(conf, "reconnect.backoff.ms", "20");
  if (security) {
    set(conf, "security.protocol", text(security, "protocol"));
    set(conf, "sasl.mechanism", text(security, "mechanism"));
    set(conf, "sasl.username", text(security, "user"));
    set(conf, "sasl.password", text(security, "password"));
    set(conf, "ssl.ca.location", text(security, "ca"));
  }
  return conf;
}

static rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
  char problem[TEXT];
  rd_kafka_t *client = rd_kafka_new(type, conf, problem, sizeof problem);
  if (!client) {
    fprintf(stderr, "%s\n", problem);
    abort();
  }
  return client;
}

/* --- consumers and producers */

typedef struct queued {
  json_t *command;
  struct queued *next;
} queued_t;

typedef struct {
  char id[TEXT];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  queued_t *first;
  rd_kafka_t *client;
  int is_consumer;
  rd_kafka_topic_partition_list_t *owned;
} actor_t;

static void report_owned(actor_t *actor) {
  json_t *pairs = json_array();
  for (int i = 0; i < actor->owned->cnt; i++) {
    rd_kafka_topic_partition_t *each = &actor->owned->elems[i];
    json_array_append_new(pairs, json_pack("[si]", each->topic, (int)each->partition));
  }
  write_event(json_pack("{ss ss so}", "id", actor->id, "event", "assignment", "partitions", pairs));
}

static void rebalance(rd_kafka_t *client, rd_kafka_resp_err_t err, rd_kafka_topic_partition_list_t *changed, void *opaque) {
  actor_t *actor = opaque;
  int is_assigned = err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
  for (int i = 0; i < changed->cnt; i++) {
    rd_kafka_topic_partition_t *each = &changed->elems[i];
    if (is_assigned) rd_kafka_topic_partition_list_add(actor->owned, each->topic, each->partition);
    else rd_kafka_topic_partition_list_del(actor->owned, each->topic, each->partition);
  }
  report_owned(actor);
  if (!strcmp(rd_kafka_rebalance_protocol(client), "COOPERATIVE")) {
    reason_t error = "";
    failed_with(error, is_assigned ? rd_kafka_incremental_assign(client, changed) : rd_kafka_incremental_unassign(client, changed));
    if (*error) write_event(json_pack("{ss ss ss}", "id", actor->id, "event", "error", "error", error));
  } else {
    rd_kafka_assign(client, is_assigned ? changed : NULL);
  }
}

static void subscribe(actor_t *actor, json_t *command, reason_t error) {
  rd_kafka_conf_t *conf = new_conf(command);
  rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
  json_t *topic;
  size_t index;
  set(conf, "group.id", text(command, "group"));
  set(conf, "auto.offset.reset", "earliest");
  set(conf, "enable.auto.commit", "false");
  set(conf, "topic.metadata.refresh.interval.ms", "500");
  set(conf, "fetch.wait.max.ms", "100");
  set(conf, "isolation.level", is_given(command, "read_committed") ? "read_committed" : "read_uncommitted");
  if (is_given(command, "instance")) set(conf, "group.instance.id", text(command, "instance"));
  if (is_given(command, "consumer_protocol")) {
    set(conf, "group.protocol", "consumer");
  } else {
    set(conf, "partition.assignment.strategy", is_given(command, "cooperative") ? "cooperative-sticky" : "range");
    set_number(conf, "session.timeout.ms", json_object_get(command, "session_ms"));
    set_number(conf, "heartbeat.interval.ms", json_object_get(command, "heartbeat_ms"));
  }
  rd_kafka_conf_set_opaque(conf, actor);
  rd_kafka_conf_set_rebalance_cb(conf, rebalance);
  actor->is_consumer = 1;
  actor->owned = rd_kafka_topic_partition_list_new(8);
  actor->client = new_client(RD_KAFKA_CONSUMER, conf);
  rd_kafka_poll_set_consumer(actor->client);
  if (is_given(command, "pattern")) {
    rd_kafka_topic_partition_list_add(topics, text(command, "pattern"), RD_KAFKA_PARTITION_UA);
  } else {
    json_array_foreach(json_object_get(command, "topics"), index, topic)
      rd_kafka_topic_partition_list_add(topics, json_string_value(topic), RD_KAFKA_PARTITION_UA);
  }
  failed(error, rd_kafka_subscribe(actor->client, topics), NULL);
  rd_kafka_topic_partition_list_destroy(topics);
}

static void poll_records(actor_t *actor) {
  rd_kafka_message_t *message = rd_kafka_consumer_poll(actor->client, POLL_MS);
  if (!message) return;
  if (message->err) {
    write_event(json_pack("{ss ss ss}", "id", actor->id, "event", "error", "error", rd_kafka_message_errstr(message)));
  } else {
    write_event(json_pack("{ss ss ss si sI so}", "id", actor->id, "event", "record", "topic", rd_kafka_topic_name(message->rkt),
                          "partition", (int)message->partition, "offset", (json_int_t)message->offset,
                          "value", json_stringn(message->payload, message->len)));
  }
  rd_kafka_message_destroy(message);
}

static void commit(actor_t *actor, json_t *command, reason_t error) {
  rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
  int partition = (int)json_integer_value(json_object_get(command, "partition"));
  rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(offsets, text(command, "topic"), partition);
  at->offset = json_integer_value(json_object_get(command, "offset"));
  failed(error, rd_kafka_commit(actor->client, offsets, 0), NULL);
  if (!*error) failed(error, at->err, NULL);
  rd_kafka_topic_partition_list_destroy(offsets);
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client, (void)opaque;
  failed(message->_private, message->err, NULL);
}

static void send_values(rd_kafka_t *client, json_t *command, reason_t error) {
  json_t *value;
  size_t index;
  json_array_foreach(json_object_get(command, "values"), index, value) {
    rd_kafka_resp_err_t code = rd_kafka_producev(
        client, RD_KAFKA_V_TOPIC(text(command, "topic")),
        RD_KAFKA_V_PARTITION((int32_t)json_integer_value(json_object_get(command, "partition"))),
        RD_KAFKA_V_VALUE((void *)json_string_value(value), json_string_length(value)),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(error), RD_KAFKA_V_END);
    failed(error, code, NULL);
  }
  rd_kafka_resp_err_t code = rd_kafka_flush(client, TIMEOUT_MS);
  if (!*error) failed(error, code, NULL);
}

static void begin(actor_t *actor, json_t *command, reason_t error) {
  if (!actor->client) {
    rd_kafka_conf_t *conf = new_conf(command);
    set(conf, "transactional.id", text(command, "transactional_id"));
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    actor->client = new_client(RD_KAFKA_PRODUCER, conf);
    failed_with(error, rd_kafka_init_transactions(actor->client, TIMEOUT_MS));
  }
  if (!*error) failed_with(error, rd_kafka_begin_transaction(actor->client));
}

static void carry_out(actor_t *actor, json_t *command, reason_t error) {
  const char *name = text(command, "do");
  if (!strcmp(name, "subscribe")) {
    subscribe(actor, command, error);
  } else if (!strcmp(name, "commit")) {
    commit(actor, command, error);
  } else if (!strcmp(name, "close")) {
    if (!actor->client) return; /* it could not subscribe */
    failed(error, rd_kafka_consumer_close(actor->client), NULL);
    rd_kafka_destroy(actor->client);
    actor->client = NULL;
  } else if (!strcmp(name, "begin")) {
    begin(actor, command, error);
  } else if (!strcmp(name, "send")) {
    send_values(actor->client, command, error);
  } else if (json_is_true(json_object_get(command, "commit"))) {
    failed_with(error, rd_kafka_commit_transaction(actor->client, TIMEOUT_MS));
  } else {
    failed_with(error, rd_kafka_abort_transaction(actor->client, TIMEOUT_MS));
  }
}

static void respond(json_t *command, json_t *result, const char *error) {
  json_object_set(result, "n", json_object_get(command, "n"));
  if (*error) json_object_set_new(result, "error", json_string(error));
  write_event(result);
  json_decref(command);
}

static json_t *next_command(actor_t *actor) {
  json_t *command = NULL;
  pthread_mutex_lock(&actor->lock);
  while (!actor->first && !(actor->client && actor->is_consumer)) pthread_cond_wait(&actor->changed, &actor->lock);
  if (actor->first) {
    queued_t *first = actor->first;
    command = first->command;
    actor->first = first->next;
    free(first);
  }
  pthread_mutex_unlock(&actor->lock);
  return command;
}

static void *run_actor(void *opaque) {
  actor_t *actor = opaque;
  for (;;) {
    json_t *command = next_command(actor);
    if (!command) {
      poll_records(actor);
      continue;
    }
    if (!strcmp(text(command, "do"), "subscribe") && is_given(command, "consumer_protocol") && rd_kafka_version() < 0x02040000) {
      respond(command, json_pack("{ss}", "unsupported", "no consumer protocol (KIP-848)"), "");
      continue;
    }
    reason_t error = "";
    carry_out(actor, command, error);
    respond(command, json_object(), error);
  }
  return NULL;
}

/* --- commands of no consumer or producer */

static void keep_reason(rd_kafka_t *client, int code, const char *reason, void *opaque) {
  (void)client;
  if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) failed(opaque, code, reason);
}

static void *produce(void *opaque) {
  json_t *command = opaque;
  reason_t error = "", connecting = "";
  rd_kafka_conf_t *conf = new_conf(command);
  rd_kafka_conf_set_dr_msg_cb(conf, delivered);
  rd_kafka_conf_set_error_cb(conf, keep_reason);
  rd_kafka_conf_set_opaque(conf, connecting);
  rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf);
  const struct rd_kafka_metadata *metadata;
  /* A rejected login is otherwise retried until the record's timeout. */
  if (rd_kafka_metadata(client, 0, NULL, &metadata, 3000)) {
    rd_kafka_poll(client, 0);
    snprintf(error, TEXT, "%s", *connecting ? connecting : "not connected");
  } else {
    rd_kafka_metadata_destroy(metadata);
    send_values(client, command, error);
  }
  rd_kafka_destroy(client);
  respond(command, json_object(), error);
  return NULL;
}

/* Requests the offsets of a group; returns [[topic, partition, offset]]. */
static json_t *group_offsets(rd_kafka_t *client, const char *group, reason_t error) {
  rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
  rd_kafka_ListConsumerGroupOffsets_t *request = rd_kafka_ListConsumerGroupOffsets_new(group, NULL);
  json_t *found = json_array();
  rd_kafka_ListConsumerGroupOffsets(client, &request, 1, NULL, queue);
  rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
  if (!event || rd_kafka_event_error(event)) {
    snprintf(error, TEXT, "%s", event ? rd_kafka_event_error_string(event) : "no offsets in time");
  } else {
    size_t count;
    const rd_kafka_group_result_t **results =
        rd_kafka_ListConsumerGroupOffsets_result_groups(rd_kafka_event_ListConsumerGroupOffsets_result(event), &count);
    const rd_kafka_topic_partition_list_t *partitions = rd_kafka_group_result_partitions(results[0]);
    for (int i = 0; i < partitions->cnt; i++) {
      const rd_kafka_topic_partition_t *each = &partitions->elems[i];
      json_array_append_new(found, json_pack("[siI]", each->topic, (int)each->partition, (json_int_t)each->offset));
    }
  }
  if (event) rd_kafka_event_destroy(event);
  rd_kafka_ListConsumerGroupOffsets_destroy(request);
  rd_kafka_queue_destroy(queue);
  return found;
}

static void *describe(void *opaque) {
  json_t *command = opaque, *result = json_object(), *groups = json_array();
  const char *group = text(command, "group");
  reason_t error = "";
  rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, new_conf(command));
  const struct rd_kafka_group_list *listed;
  rd_kafka_resp_err_t code = rd_kafka_list_groups(client, NULL, &listed, TIMEOUT_MS);
  failed(error, code, NULL);
  for (int i = 0; !code && i < listed->group_cnt; i++) {
    const struct rd_kafka_group_info *each = &listed->groups[i];
    json_array_append_new(groups, json_string(each->group));
    if (strcmp(each->group, group)) continue;
    json_object_set_new(result, "state", json_string(each->state));
    json_object_set_new(result, "members", json_integer(each->member_cnt));
  }
  if (!code) rd_kafka_group_list_destroy(listed);
  json_object_set_new(result, "groups", groups);
  json_object_set_new(result, "offsets", group_offsets(client, group, error));
  rd_kafka_destroy(client);
  respond(command, result, error);
  return NULL;
}

/* --- the input */

static actor_t *find_actor(const char *id) {
  static actor_t *actors[THREADS];
  int i = 0;
  for (; i < THREADS && actors[i]; i++)
    if (!strcmp(actors[i]->id, id)) return actors[i];
  if (i == THREADS) abort();
  actor_t *actor = calloc(1, sizeof *actor);
  snprintf(actor->id, TEXT, "%s", id);
  pthread_mutex_init(&actor->lock, NULL);
  pthread_cond_init(&actor->changed, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, run_actor, actor);
  pthread_detach(thread);
  return actors[i] = actor;
}

static void enqueue(actor_t *actor, json_t *command) {
  queued_t *queued = calloc(1, sizeof *queued), **last = &actor->first;
  queued->command = command;
  pthread_mutex_lock(&actor->lock);
  while (*last) last = &(*last)->next;
  *last = queued;
  pthread_cond_signal(&actor->changed);
  pthread_mutex_unlock(&actor->lock);
}

int main(void) {
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, stdin) > 0) {
    json_t *command = json_loads(line, 0, NULL);
    if (!command) abort();
    if (is_given(command, "id")) {
      enqueue(find_actor(text(command, "id")), command);
      continue;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, strcmp(text(command, "do"), "describe") ? produce : describe, command);
    pthread_detach(thread);
  }
  _Exit(0);
}
