package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// How long a member waits after a response that does not change its assignment.
	heartbeatPause = 100 * time.Millisecond
	// With ten thousand partitions kfake takes a minute on a busy machine.
	stableWithin = 5 * time.Minute
	// Kafka rejects the creation of more than 10,000 partitions in one request.
	consumerTopics = 10

	coordinatorLoadInProgress = 14
	notCoordinator            = 16 // of an offsets topic that Kafka is creating
)

// consumer is a member of a group of the consumer protocol (KIP-848).
type consumer struct {
	*connection
	id       string
	epoch    int32
	assigned []topicPartitions
}

type topicPartitions struct {
	topicID    string
	partitions []int32
}

// heartbeat sends a request of version 0, with the owned partitions if `reports` or at epoch 0, and
// returns whether the response has an assignment.
func (m *consumer) heartbeat(reports bool) bool {
	f := request(apiConsumer, 0).tags().compact(*group).compact(m.id).int32(m.epoch)
	f.nullCompact().nullCompact() // instance id, rack id
	if m.epoch == 0 {
		f.int32(60_000).uvarint(consumerTopics + 1)
		for n := 0; n < consumerTopics; n++ {
			f.compact(topicOf(n))
		}
	} else {
		f.int32(-1).nullCompact()
	}
	f.nullCompact() // assignor
	if reports || m.epoch == 0 {
		m.putAssigned(f)
	} else {
		f.nullCompact()
	}
	a := m.call(f.tags())
	a.skip(5)
	code := a.int16()
	if code == coordinatorLoadInProgress || code == notCoordinator {
		return false
	}
	if code != 0 {
		fail("a heartbeat at epoch %d received error %d: %s", m.epoch, code, a.compact())
	}
	a.compact()
	a.compact()
	m.epoch = a.int32()
	a.skip(4)
	if a.int8() < 0 {
		return false
	}
	m.assigned = m.assigned[:0]
	for n := a.uvarint() - 1; n > 0; n-- {
		each := topicPartitions{topicID: string(a.bytes[a.at : a.at+16])}
		a.skip(16)
		for k := a.uvarint() - 1; k > 0; k-- {
			each.partitions = append(each.partitions, a.int32())
		}
		a.uvarint()
		m.assigned = append(m.assigned, each)
	}
	return true
}

func (m *consumer) putAssigned(f *frame) {
	f.uvarint(len(m.assigned) + 1)
	for _, each := range m.assigned {
		f.bytes = append(f.bytes, each.topicID...)
		f.uvarint(len(each.partitions) + 1)
		for _, partition := range each.partitions {
			f.int32(partition)
		}
		f.tags()
	}
}

func topicOf(n int) string { return fmt.Sprintf("%s-%d", *topic, n) }

func (m *consumer) owned() int {
	count := 0
	for _, each := range m.assigned {
		count += len(each.partitions)
	}
	return count
}

type place struct {
	epoch int32
	owned int
}

// stability counts members by their epoch and number of partitions.
type stability struct {
	mutex   sync.Mutex
	members map[place]int
}

// replace counts a member in its new place instead of the old one, and returns whether all members
// have the same epoch and an equal share of the partitions.
func (s *stability) replace(before, after place) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.members[before]--
	s.members[after]++
	return after.owned == *partitions / *conns && s.members[after] == *conns
}

// consumerGroup measures how long new members need until all have their final assignment, then
// heartbeats without changes, one in flight on each connection.
func consumerGroup() {
	for n := 0; n < consumerTopics; n++ {
		createTopic(topicOf(n), *partitions/consumerTopics)
	}
	members := make([]*consumer, *conns)
	for n := range members {
		var id [16]byte
		rand.Read(id[:])
		members[n] = &consumer{connection: connect(), id: hex.EncodeToString(id[:])}
	}
	waitUntil("the coordinator is available", func() bool {
		a := members[0].call(request(apiFindCoord, 0).string(*group))
		return a.int16() == 0
	})
	state := stability{members: map[place]int{{}: *conns}}
	var stable atomic.Bool
	var joining atomic.Int64
	var done sync.WaitGroup
	start := time.Now()
	for _, m := range members {
		done.Add(1)
		go func(m *consumer) {
			defer done.Done()
			for changed := false; !stable.Load(); {
				if time.Since(start) > stableWithin {
					fail("the members have unequal shares or epochs after %s", stableWithin)
				}
				before := place{m.epoch, m.owned()}
				changed = m.heartbeat(changed)
				joining.Add(1)
				if state.replace(before, place{m.epoch, m.owned()}) {
					stable.Store(true)
				} else if !changed {
					time.Sleep(heartbeatPause)
				}
			}
		}(m)
	}
	done.Wait()
	stableAfter := time.Since(start)
	beats := steadyHeartbeats(members)
	report(map[string]any{
		"mode": "consumer", "members": *conns, "partitions": *partitions, "errors": 0,
		"stable_ms": milliseconds(stableAfter), "joining_heartbeats": joining.Load(),
		"heartbeats_s": float64(beats) / *seconds,
	})
}

func steadyHeartbeats(members []*consumer) int64 {
	var beats atomic.Int64
	var done sync.WaitGroup
	until := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	for _, m := range members {
		done.Add(1)
		go func(m *consumer) {
			defer done.Done()
			for time.Now().Before(until) {
				m.heartbeat(false)
				beats.Add(1)
			}
		}(m)
	}
	done.Wait()
	return beats.Load()
}
