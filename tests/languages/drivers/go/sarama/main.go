// The driver of IBM/sarama.
package main

import (
	"context"
	"crypto/sha512"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"kohort.tests/languages/protocol"
)

type library struct{}

func config(c *protocol.Command) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Metadata.RefreshFrequency = 500 * time.Millisecond
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	if s := c.Security; s != nil {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = s.User, s.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{} }
		config.Net.TLS.Config = s.TLS()
		config.Net.TLS.Enable = config.Net.TLS.Config != nil
	}
	return config
}

// exchange of SCRAM, which the library leaves to another one.
type exchange struct{ conversation *scram.ClientConversation }

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := scram.HashGeneratorFcn(sha512.New).NewClient(user, password, authorization)
	if err == nil {
		e.conversation = client.NewConversation()
	}
	return err
}

func (e *exchange) Step(challenge string) (string, error) { return e.conversation.Step(challenge) }

func (e *exchange) Done() bool { return e.conversation.Done() }

type member struct {
	group  sarama.ConsumerGroup
	events *protocol.Events
	stop   context.CancelFunc
	ended  sync.WaitGroup
	failed chan error

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	owned   map[string]map[int32]bool
}

func (library) Subscribe(c *protocol.Command, events *protocol.Events) (protocol.Member, error) {
	switch {
	case c.ConsumerProtocol:
		return nil, protocol.Unsupported("no consumer protocol (KIP-848)")
	case c.Pattern != "":
		return nil, protocol.Unsupported("no subscription to a pattern")
	}
	config := config(c)
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.InstanceId = c.Instance
	config.Consumer.Group.Session.Timeout = time.Duration(c.SessionMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = time.Duration(c.HeartbeatMs) * time.Millisecond
	if c.ReadCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	strategy := sarama.NewBalanceStrategyRange()
	if c.Cooperative {
		strategy = sarama.NewBalanceStrategyCooperativeSticky()
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	group, err := sarama.NewConsumerGroup(strings.Split(c.Servers, ","), c.Group, config)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	m := &member{group: group, events: events, stop: stop, failed: make(chan error, 1000), owned: map[string]map[int32]bool{}}
	go func() {
		for err := range group.Errors() {
			events.Error(err)
			m.failed <- err
		}
	}()
	m.ended.Add(1)
	go func() {
		defer m.ended.Done()
		for running.Err() == nil {
			if err := group.Consume(running, c.Topics, m); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				events.Error(err)
			}
		}
	}()
	return m, nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim runs from the assignment of a partition to its revocation.
func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.change(claim, true)
	defer m.change(claim, false)
	for message := range claim.Messages() {
		m.events.Record(message.Topic, message.Partition, message.Offset, message.Value)
	}
	return nil
}

func (m *member) change(claim sarama.ConsumerGroupClaim, isOwned bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.owned[claim.Topic()] == nil {
		m.owned[claim.Topic()] = map[int32]bool{}
	}
	m.owned[claim.Topic()][claim.Partition()] = isOwned
	all := map[string][]int32{}
	for topic, partitions := range m.owned {
		for partition, isOwned := range partitions {
			if isOwned {
				all[topic] = append(all[topic], partition)
			}
		}
	}
	m.events.Assignment(all)
}

func (m *member) Commit(topic string, partition int32, offset int64) error {
	m.mutex.Lock()
	session := m.session
	m.mutex.Unlock()
	for len(m.failed) > 0 {
		<-m.failed
	}
	session.MarkOffset(topic, partition, offset, "")
	session.Commit() // reports its error to the channel only
	select {
	case err := <-m.failed:
		return err
	case <-time.After(500 * time.Millisecond):
		return nil
	}
}

func (m *member) Close() error {
	m.stop()
	m.ended.Wait()
	return m.group.Close()
}

type producer struct{ sarama.SyncProducer }

func (library) NewProducer(c *protocol.Command) (protocol.Producer, error) {
	config := config(c)
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = c.TransactionalID
	config.Net.MaxOpenRequests = 1
	created, err := sarama.NewSyncProducer(strings.Split(c.Servers, ","), config)
	return &producer{created}, err
}

func (p *producer) Begin() error { return p.BeginTxn() }

func (p *producer) Send(topic string, partition int32, values []string) error {
	return send(p.SyncProducer, topic, partition, values)
}

func (p *producer) End(commit bool) error {
	if commit {
		return p.CommitTxn()
	}
	return p.AbortTxn()
}

func (library) Produce(c *protocol.Command) error {
	created, err := sarama.NewSyncProducer(strings.Split(c.Servers, ","), config(c))
	if err != nil {
		return err
	}
	defer created.Close()
	return send(created, c.Topic, c.Partition, c.Values)
}

func send(producer sarama.SyncProducer, topic string, partition int32, values []string) error {
	messages := []*sarama.ProducerMessage{}
	for _, value := range values {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)})
	}
	err := producer.SendMessages(messages)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) { // whose text has only their number
		return failed[0].Err
	}
	return err
}

func (library) Describe(c *protocol.Command) (*protocol.Described, error) {
	admin, err := sarama.NewClusterAdmin(strings.Split(c.Servers, ","), config(c))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	listed, err := admin.ListConsumerGroups()
	if err != nil {
		return nil, err
	}
	described, err := admin.DescribeConsumerGroups([]string{c.Group})
	if err != nil {
		return nil, err
	}
	offsets, err := admin.ListConsumerGroupOffsets(c.Group, nil)
	if err != nil {
		return nil, err
	}
	found := &protocol.Described{State: described[0].State, Members: len(described[0].Members)}
	for group := range listed {
		found.Groups = append(found.Groups, group)
	}
	for topic, partitions := range offsets.Blocks {
		for partition, block := range partitions {
			found.Offsets = append(found.Offsets, [3]any{topic, partition, block.Offset})
		}
	}
	return found, nil
}

func main() { protocol.Run(library{}) }
