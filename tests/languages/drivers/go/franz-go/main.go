// The driver of franz-go.
package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"kohort.tests/languages/protocol"
)

const timeout = 20 * time.Second

type library struct{}

func options(c *protocol.Command, more ...kgo.Opt) []kgo.Opt {
	given := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.Servers, ",")...),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(500 * time.Millisecond),
	}
	if config := c.Security.TLS(); config != nil {
		given = append(given, kgo.DialTLSConfig(config))
	}
	if s := c.Security; s != nil {
		var mechanism sasl.Mechanism = plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
		if s.Mechanism == "SCRAM-SHA-512" {
			mechanism = scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
		}
		given = append(given, kgo.SASL(mechanism))
	}
	return append(given, more...)
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

type member struct {
	client *kgo.Client
	polled sync.WaitGroup
	stop   context.CancelFunc

	mutex sync.Mutex
	owned map[string]map[int32]bool
}

func (library) Subscribe(c *protocol.Command, events *protocol.Events) (protocol.Member, error) {
	m := &member{owned: map[string]map[int32]bool{}}
	change := func(isOwned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			events.Assignment(m.change(changed, isOwned))
		}
	}
	balancer := kgo.RangeBalancer()
	if c.Cooperative || c.ConsumerProtocol {
		balancer = kgo.CooperativeStickyBalancer()
	}
	isolation := kgo.ReadUncommitted()
	if c.ReadCommitted {
		isolation = kgo.ReadCommitted()
	}
	given := options(c,
		kgo.ConsumerGroup(c.Group), kgo.Balancers(balancer), kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(isolation),
		kgo.SessionTimeout(time.Duration(c.SessionMs)*time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(c.HeartbeatMs)*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	)
	if c.Pattern != "" {
		given = append(given, kgo.ConsumeRegex(), kgo.ConsumeTopics(c.Pattern))
	} else {
		given = append(given, kgo.ConsumeTopics(c.Topics...))
	}
	if c.Instance != "" {
		given = append(given, kgo.InstanceID(c.Instance))
	}
	if c.ConsumerProtocol {
		// The library tries the protocol only if it is opted in to.
		opted := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		given = append(given, kgo.WithContext(opted))
	}
	client, err := kgo.NewClient(given...)
	if err != nil {
		return nil, err
	}
	m.client = client
	polling, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.polled.Add(1)
	go m.poll(polling, events)
	return m, nil
}

func (m *member) change(changed map[string][]int32, isOwned bool) map[string][]int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	all := map[string][]int32{}
	for topic, numbers := range changed {
		if m.owned[topic] == nil {
			m.owned[topic] = map[int32]bool{}
		}
		for _, number := range numbers {
			m.owned[topic][number] = isOwned
		}
	}
	for topic, numbers := range m.owned {
		for number, isOwned := range numbers {
			if isOwned {
				all[topic] = append(all[topic], number)
			}
		}
	}
	return all
}

func (m *member) poll(polling context.Context, events *protocol.Events) {
	defer m.polled.Done()
	for polling.Err() == nil {
		fetches := m.client.PollFetches(polling)
		fetches.EachError(func(_ string, _ int32, err error) {
			if polling.Err() == nil {
				events.Error(err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { events.Record(r.Topic, r.Partition, r.Offset, r.Value) })
	}
}

func (m *member) Commit(topic string, partition int32, offset int64) error {
	ctx, cancel := within()
	defer cancel()
	// Not CommitOffsetsSync, which returns nil for errors of a partition.
	at := kgo.EpochOffset{Epoch: -1, Offset: offset}
	var failed error
	done := make(chan struct{})
	m.client.CommitOffsets(ctx, map[string]map[int32]kgo.EpochOffset{topic: {partition: at}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			defer close(done)
			failed = err
			if err != nil {
				return
			}
			for _, each := range response.Topics {
				for _, p := range each.Partitions {
					if failed == nil {
						failed = kerr.ErrorForCode(p.ErrorCode)
					}
				}
			}
		})
	<-done
	return failed
}

func (m *member) Close() error {
	m.stop()
	m.polled.Wait()
	m.client.Close()
	return nil
}

type producer struct{ client *kgo.Client }

func (library) NewProducer(c *protocol.Command) (protocol.Producer, error) {
	client, err := kgo.NewClient(options(c,
		kgo.TransactionalID(c.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	return &producer{client}, err
}

func (p *producer) Begin() error {
	ctx, cancel := within()
	defer cancel()
	// InitProducerId, which fences others, is otherwise sent with the first record.
	if _, _, err := p.client.ProducerID(ctx); err != nil {
		return err
	}
	return p.client.BeginTransaction()
}

func (p *producer) Send(topic string, partition int32, values []string) error {
	return send(p.client, topic, partition, values)
}

func (p *producer) End(commit bool) error {
	ctx, cancel := within()
	defer cancel()
	return p.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (library) Produce(c *protocol.Command) error {
	client, err := kgo.NewClient(options(c, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := within()
	defer cancel()
	// A rejected login is otherwise retried until the record's timeout.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	return send(client, c.Topic, c.Partition, c.Values)
}

func send(client *kgo.Client, topic string, partition int32, values []string) error {
	ctx, cancel := within()
	defer cancel()
	records := []*kgo.Record{}
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func (library) Describe(c *protocol.Command) (*protocol.Described, error) {
	ctx, cancel := within()
	defer cancel()
	client, err := kgo.NewClient(options(c)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	described, err := admin.DescribeGroups(ctx, c.Group)
	if err != nil {
		return nil, err
	}
	offsets, err := admin.FetchOffsets(ctx, c.Group)
	if err != nil {
		return nil, err
	}
	group := described[c.Group]
	found := &protocol.Described{Groups: listed.Groups(), State: group.State, Members: len(group.Members)}
	offsets.Each(func(o kadm.OffsetResponse) {
		found.Offsets = append(found.Offsets, [3]any{o.Topic, o.Partition, o.At})
	})
	return found, group.Err
}

func main() { protocol.Run(library{}) }
