// The driver of segmentio/kafka-go.
package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"kohort.tests/languages/protocol"
)

const timeout = 20 * time.Second

type library struct{}

func mechanism(s *protocol.Security) sasl.Mechanism {
	if s == nil {
		return nil
	}
	if s.Mechanism == "PLAIN" {
		return plain.Mechanism{Username: s.User, Password: s.Password}
	}
	found, err := scram.Mechanism(scram.SHA512, s.User, s.Password)
	if err != nil {
		panic(err)
	}
	return found
}

func transport(c *protocol.Command) *kafka.Transport {
	return &kafka.Transport{TLS: c.Security.TLS(), SASL: mechanism(c.Security)}
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

type member struct {
	group  *kafka.ConsumerGroup
	events *protocol.Events
	config kafka.ReaderConfig
	stop   context.CancelFunc

	mutex      sync.Mutex
	generation *kafka.Generation
}

func (library) Subscribe(c *protocol.Command, events *protocol.Events) (protocol.Member, error) {
	switch {
	case c.Instance != "":
		return nil, protocol.Unsupported("no static members (KIP-345)")
	case c.Cooperative:
		return nil, protocol.Unsupported("no cooperative rebalances (KIP-429)")
	case c.ConsumerProtocol:
		return nil, protocol.Unsupported("no consumer protocol (KIP-848)")
	case c.Pattern != "":
		return nil, protocol.Unsupported("no subscription to a pattern")
	}
	dialer := &kafka.Dialer{Timeout: timeout, TLS: c.Security.TLS(), SASLMechanism: mechanism(c.Security)}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: c.Group, Brokers: strings.Split(c.Servers, ","), Topics: c.Topics, Dialer: dialer,
		SessionTimeout:    time.Duration(c.SessionMs) * time.Millisecond,
		RebalanceTimeout:  time.Duration(c.SessionMs) * time.Millisecond,
		HeartbeatInterval: time.Duration(c.HeartbeatMs) * time.Millisecond,
		JoinGroupBackoff:  100 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return nil, err
	}
	config := kafka.ReaderConfig{
		Brokers: strings.Split(c.Servers, ","), Dialer: dialer, MaxWait: 100 * time.Millisecond,
		MinBytes: 1, MaxBytes: 1 << 20, IsolationLevel: kafka.ReadUncommitted,
	}
	if c.ReadCommitted {
		config.IsolationLevel = kafka.ReadCommitted
	}
	running, stop := context.WithCancel(context.Background())
	m := &member{group: group, events: events, config: config, stop: stop}
	go m.run(running)
	return m, nil
}

func (m *member) run(running context.Context) {
	for {
		generation, err := m.group.Next(running)
		if running.Err() != nil {
			return
		}
		if err != nil {
			m.events.Error(err)
			continue
		}
		m.mutex.Lock()
		m.generation = generation
		m.mutex.Unlock()
		owned := map[string][]int32{}
		for topic, assignments := range generation.Assignments {
			for _, each := range assignments {
				owned[topic] = append(owned[topic], int32(each.ID))
				generation.Start(func(ctx context.Context) { m.read(ctx, topic, each) })
			}
		}
		m.events.Assignment(owned)
		generation.Start(func(ctx context.Context) {
			<-ctx.Done()
			m.events.Assignment(nil)
		})
	}
}

func (m *member) read(ctx context.Context, topic string, assignment kafka.PartitionAssignment) {
	config := m.config
	config.Topic, config.Partition = topic, assignment.ID
	reader := kafka.NewReader(config)
	defer reader.Close()
	reader.SetOffset(assignment.Offset)
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.events.Error(err)
			return
		}
		m.events.Record(topic, int32(message.Partition), message.Offset, message.Value)
	}
}

func (m *member) Commit(topic string, partition int32, offset int64) error {
	m.mutex.Lock()
	generation := m.generation
	m.mutex.Unlock()
	return generation.CommitOffsets(map[string]map[int]int64{topic: {int(partition): offset}})
}

func (m *member) Close() error {
	m.stop()
	return m.group.Close()
}

func (library) NewProducer(*protocol.Command) (protocol.Producer, error) {
	return nil, protocol.Unsupported("no transactional producer")
}

func (library) Produce(c *protocol.Command) error {
	ctx, cancel := within()
	defer cancel()
	writer := &kafka.Writer{
		Addr: kafka.TCP(strings.Split(c.Servers, ",")...), Topic: c.Topic, RequiredAcks: kafka.RequireAll,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return int(c.Partition) }),
		BatchTimeout: 10 * time.Millisecond, Transport: transport(c), MaxAttempts: 3,
	}
	defer writer.Close()
	messages := []kafka.Message{}
	for _, value := range c.Values {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	return writer.WriteMessages(ctx, messages...)
}

func (library) Describe(c *protocol.Command) (*protocol.Described, error) {
	ctx, cancel := within()
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(strings.Split(c.Servers, ",")...), Transport: transport(c)}
	listed, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{c.Group}})
	if err != nil {
		return nil, err
	}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: c.Group})
	if err != nil {
		return nil, err
	}
	group := described.Groups[0]
	found := &protocol.Described{State: group.GroupState, Members: len(group.Members)}
	for _, each := range listed.Groups {
		found.Groups = append(found.Groups, each.GroupID)
	}
	for topic, partitions := range offsets.Topics {
		for _, each := range partitions {
			found.Offsets = append(found.Offsets, [3]any{topic, each.Partition, each.CommittedOffset})
		}
	}
	return found, group.Error
}

func main() { protocol.Run(library{}) }
