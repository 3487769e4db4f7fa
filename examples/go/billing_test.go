// A test of a Kafka consumer in Go, against a broker that the test controls: `go test`.
package billing

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Service is the service under test.
type Service struct {
	hasLostPartitions atomic.Bool
}

func (s *Service) run(ctx context.Context, bootstrapServers string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrapServers, ",")...),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {
			s.hasLostPartitions.Store(true)
		}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		if fetches := client.PollFetches(ctx); !fetches.Empty() {
			// If this fails, other members own the partitions now and read these records again.
			_ = client.CommitUncommittedOffsets(ctx)
		}
	}
	return nil
}

func TestAServiceCommitsAlthoughItsCoordinatorMovesAndRejoinsAfterItsSession(t *testing.T) {
	kohort := startKohort(t)
	kohort.Post("/topics/orders", `{"partitions": 2}`)
	kohort.Post("/topics/orders/records", `{"values": ["espresso", "tea"], "partition": 0}`)
	kohort.Post("/faults", `{"action": "answer", "api": "OffsetCommit", "error": "NOT_COORDINATOR",
		"group": "billing", "times": 2}`)

	service, done := &Service{}, make(chan error)
	ctx, stop := context.WithCancel(context.Background())
	go func() { done <- service.run(ctx, kohort.BootstrapServers) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	kohort.Post("/groups/billing/wait", `{"until": "stable", "members": 1}`)
	kohort.Post("/groups/billing/wait",
		`{"until": "committed", "topic": "orders", "partition": 0, "offset": 2}`)
	kohort.Post("/faults/check", "") // fails unless the fault has fired twice

	kohort.Post("/clock/advance", `{"seconds": 46}`) // its session timeout is 45 s
	kohort.Post("/groups/billing/wait", `{"until": "stable", "members": 1}`)
	generations := kohort.Request("GET", "/groups/billing/generations", "")
	if !strings.Contains(generations, `"cause": "session expired"`) {
		t.Error(generations)
	}
	if !service.hasLostPartitions.Load() {
		t.Error("the service did not lose its partitions")
	}
}
