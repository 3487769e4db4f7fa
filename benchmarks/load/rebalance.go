package main

import (
	"bytes"
	"sync"
	"time"
)

const (
	illegalGeneration   = 22
	unknownMemberID     = 25
	rebalanceInProgress = 27
	memberIDRequired    = 79
)

// The size of a subscription to one or two topics with the user data of a sticky assignor.
const subscriptionBytes = 200

type member struct {
	*connection
	id         string
	generation int32
	isLeader   bool
	stable     bool
	others     []string
}

func (m *member) join(subscription []byte) int16 {
	f := request(apiJoinGroup, 5).string(*group).int32(30_000).int32(60_000).string(m.id).null()
	a := m.call(f.string("consumer").int32(1).string("range").blob(subscription))
	a.skip(4)
	code := a.int16()
	m.generation = a.int32()
	a.string()
	leader := a.string()
	m.id = a.string()
	m.others = m.others[:0]
	for n := a.int32(); n > 0; n-- {
		m.others = append(m.others, a.string())
		a.string()
		a.blob()
	}
	m.isLeader = code == 0 && leader == m.id
	return code
}

func (m *member) sync(assignment []byte) int16 {
	f := request(apiSyncGroup, 3).string(*group).int32(m.generation).string(m.id).null()
	if m.isLeader {
		f.int32(int32(len(m.others)))
		for _, id := range m.others {
			f.string(id).blob(assignment)
		}
	} else {
		f.int32(0)
	}
	a := m.call(f)
	a.skip(4)
	return a.int16()
}

func (m *member) heartbeat() int16 {
	a := m.call(request(apiHeartbeat, 3).string(*group).int32(m.generation).string(m.id).null())
	a.skip(4)
	return a.int16()
}

// joinAndSync repeats until the member has the assignment of a generation.
func (m *member) joinAndSync(subscription, assignment []byte) {
	for {
		code := m.join(subscription)
		if code == 0 {
			if code = m.sync(assignment); code == 0 {
				return
			}
		}
		switch code {
		case memberIDRequired, rebalanceInProgress, illegalGeneration:
		case unknownMemberID:
			m.id = ""
		default:
			fail("a member received error %d", code)
		}
	}
}

// rebalance measures rebalances of one group: from when all members except the leader rejoin until
// every member has its assignment. The leader rejoins earlier, which starts the rebalance.
func rebalance() {
	blob := func(size int) []byte {
		f := (&frame{}).int16(0).int32(1).string(*topic)
		return f.blob(bytes.Repeat([]byte{1}, max(0, size-len(f.bytes)-4))).bytes
	}
	subscription, assignment := blob(subscriptionBytes), blob(0)
	members := make([]*member, *conns)
	for n := range members {
		members[n] = &member{connection: connect()}
	}
	all := func(except *member) time.Duration {
		var done sync.WaitGroup
		start := time.Now()
		for _, m := range members {
			if m == except {
				continue
			}
			done.Add(1)
			go func(m *member) { defer done.Done(); m.joinAndSync(subscription, assignment) }(m)
		}
		done.Wait()
		return time.Since(start)
	}
	members[0].call(request(apiFindCoord, 0).string(*group))
	formed := form(members, subscription, assignment)
	var times []float64
	for round := 0; round < *rounds; round++ {
		leader, other := leaderAndOther(members)
		leaderDone := make(chan struct{})
		go func() { leader.joinAndSync(subscription, assignment); close(leaderDone) }()
		waitUntil("the rebalance started", func() bool { return other.heartbeat() == rebalanceInProgress })
		start := time.Now()
		all(leader)
		<-leaderDone
		times = append(times, milliseconds(time.Since(start)))
	}
	for _, m := range members {
		if m.generation != members[0].generation {
			fail("members ended in generations %d and %d", m.generation, members[0].generation)
		}
	}
	sorted(times)
	report(map[string]any{
		"mode": "rebalance", "members": *conns, "rounds": *rounds, "formed_ms": milliseconds(formed),
		"min_ms": times[0], "p50_ms": quantile(times, .5), "max_ms": quantile(times, 1), "errors": 0,
	})
}

func leaderAndOther(members []*member) (leader, other *member) {
	for _, m := range members {
		if m.isLeader {
			leader = m
		} else {
			other = m
		}
	}
	if leader == nil || other == nil {
		fail("a rebalance needs a leader and a follower")
	}
	return leader, other
}

// form joins all members into one generation. Without an initial delay the first members may form a
// generation without the others; their heartbeats then return REBALANCE_IN_PROGRESS.
func form(members []*member, subscription, assignment []byte) time.Duration {
	var mutex sync.Mutex
	generations := map[*member]int32{}
	formed := func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		for _, generation := range generations {
			if generation != generations[members[0]] {
				return false
			}
		}
		return len(generations) == len(members)
	}
	start := time.Now()
	var done sync.WaitGroup
	for _, m := range members {
		done.Add(1)
		go func(m *member) {
			defer done.Done()
			for !formed() {
				if m.stable && m.heartbeat() == 0 {
					time.Sleep(time.Millisecond)
					continue
				}
				m.joinAndSync(subscription, assignment)
				m.stable = true
				mutex.Lock()
				generations[m] = m.generation
				mutex.Unlock()
			}
		}(m)
	}
	done.Wait()
	return time.Since(start)
}
