// The driver of confluent-kafka-go, with the librdkafka that it brings.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"kohort.tests/languages/protocol"
)

const timeout = 20 * time.Second

type library struct{}

func config(c *protocol.Command) kafka.ConfigMap {
	config := kafka.ConfigMap{"bootstrap.servers": c.Servers, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20}
	if s := c.Security; s != nil {
		config["security.protocol"], config["sasl.mechanism"] = s.Protocol, s.Mechanism
		config["sasl.username"], config["sasl.password"] = s.User, s.Password
		config["ssl.ca.location"] = s.CA
	}
	return config
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

type member struct {
	consumer *kafka.Consumer
	events   *protocol.Events
	owned    map[string]map[int32]bool
	calls    chan func()
	isOpen   bool
}

func (library) Subscribe(c *protocol.Command, events *protocol.Events) (protocol.Member, error) {
	config := config(c)
	config["group.id"], config["auto.offset.reset"], config["enable.auto.commit"] = c.Group, "earliest", false
	config["topic.metadata.refresh.interval.ms"], config["fetch.wait.max.ms"] = 500, 100
	config["isolation.level"] = "read_uncommitted"
	if c.ReadCommitted {
		config["isolation.level"] = "read_committed"
	}
	if c.Instance != "" {
		config["group.instance.id"] = c.Instance
	}
	if c.ConsumerProtocol {
		config["group.protocol"] = "consumer"
	} else {
		config["partition.assignment.strategy"] = "range"
		if c.Cooperative {
			config["partition.assignment.strategy"] = "cooperative-sticky"
		}
		config["session.timeout.ms"], config["heartbeat.interval.ms"] = c.SessionMs, c.HeartbeatMs
	}
	consumer, err := kafka.NewConsumer(&config)
	if err != nil {
		return nil, err
	}
	m := &member{consumer, events, map[string]map[int32]bool{}, make(chan func()), true}
	topics := c.Topics
	if c.Pattern != "" {
		topics = []string{c.Pattern}
	}
	if err := consumer.SubscribeTopics(topics, m.rebalance); err != nil {
		return nil, err
	}
	go m.run()
	return m, nil
}

func (m *member) rebalance(_ *kafka.Consumer, event kafka.Event) error {
	switch changed := event.(type) {
	case kafka.AssignedPartitions:
		m.change(changed.Partitions, true)
	case kafka.RevokedPartitions:
		m.change(changed.Partitions, false)
	}
	return nil
}

func (m *member) change(changed []kafka.TopicPartition, isOwned bool) {
	all := map[string][]int32{}
	for _, each := range changed {
		if m.owned[*each.Topic] == nil {
			m.owned[*each.Topic] = map[int32]bool{}
		}
		m.owned[*each.Topic][each.Partition] = isOwned
	}
	for topic, partitions := range m.owned {
		for partition, isOwned := range partitions {
			if isOwned {
				all[topic] = append(all[topic], partition)
			}
		}
	}
	m.events.Assignment(all)
}

// run polls the consumer, and carries out calls between two polls.
func (m *member) run() {
	for m.isOpen {
		select {
		case call := <-m.calls:
			call()
		default:
			switch event := m.consumer.Poll(50).(type) {
			case *kafka.Message:
				at := event.TopicPartition
				m.events.Record(*at.Topic, at.Partition, int64(at.Offset), event.Value)
			case kafka.Error:
				m.events.Error(event)
			}
		}
	}
}

func (m *member) call(function func() error) error {
	result := make(chan error, 1)
	m.calls <- func() { result <- function() }
	return <-result
}

func (m *member) Commit(topic string, partition int32, offset int64) error {
	return m.call(func() error {
		at := kafka.TopicPartition{Topic: &topic, Partition: partition, Offset: kafka.Offset(offset)}
		committed, err := m.consumer.CommitOffsets([]kafka.TopicPartition{at})
		if err != nil {
			return err
		}
		return committed[0].Error
	})
}

func (m *member) Close() error {
	return m.call(func() error {
		m.isOpen = false
		return m.consumer.Close()
	})
}

type producer struct{ *kafka.Producer }

func (library) NewProducer(c *protocol.Command) (protocol.Producer, error) {
	config := config(c)
	config["transactional.id"] = c.TransactionalID
	created, err := kafka.NewProducer(&config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := within()
	defer cancel()
	return producer{created}, created.InitTransactions(ctx)
}

func (p producer) Begin() error { return p.BeginTransaction() }

func (p producer) Send(topic string, partition int32, values []string) error {
	return send(p.Producer, topic, partition, values)
}

func (p producer) End(commit bool) error {
	ctx, cancel := within()
	defer cancel()
	if commit {
		return p.CommitTransaction(ctx)
	}
	return p.AbortTransaction(ctx)
}

func (library) Produce(c *protocol.Command) error {
	config := config(c)
	created, err := kafka.NewProducer(&config)
	if err != nil {
		return err
	}
	defer created.Close()
	// A rejected login is otherwise retried until the record's timeout.
	if _, err := created.GetMetadata(nil, true, 3000); err != nil {
		for len(created.Events()) > 0 {
			if event, isError := (<-created.Events()).(kafka.Error); isError {
				err = errors.Join(err, event)
			}
		}
		return err
	}
	return send(created, c.Topic, c.Partition, c.Values)
}

func send(producer *kafka.Producer, topic string, partition int32, values []string) error {
	for _, value := range values {
		delivered := make(chan kafka.Event, 1)
		to := kafka.TopicPartition{Topic: &topic, Partition: partition}
		if err := producer.Produce(&kafka.Message{TopicPartition: to, Value: []byte(value)}, delivered); err != nil {
			return err
		}
		if err := (<-delivered).(*kafka.Message).TopicPartition.Error; err != nil {
			return err
		}
	}
	return nil
}

func (library) Describe(c *protocol.Command) (*protocol.Described, error) {
	ctx, cancel := within()
	defer cancel()
	config := config(c)
	admin, err := kafka.NewAdminClient(&config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	listed, err := admin.ListConsumerGroups(ctx)
	if err != nil {
		return nil, err
	}
	described, err := admin.DescribeConsumerGroups(ctx, []string{c.Group})
	if err != nil {
		return nil, err
	}
	of := []kafka.ConsumerGroupTopicPartitions{{Group: c.Group}}
	offsets, err := admin.ListConsumerGroupOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	group := described.ConsumerGroupDescriptions[0]
	found := &protocol.Described{State: group.State.String(), Members: len(group.Members)}
	for _, each := range listed.Valid {
		found.Groups = append(found.Groups, each.GroupID)
	}
	for _, each := range offsets.ConsumerGroupsTopicPartitions[0].Partitions {
		found.Offsets = append(found.Offsets, [3]any{*each.Topic, each.Partition, int64(each.Offset)})
	}
	return found, nil
}

func main() { protocol.Run(library{}) }
