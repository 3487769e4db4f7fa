package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// prepared is a request that is sent repeatedly; the offset of a commit increases each time.
type prepared struct {
	bytes    []byte
	offsetAt int // 0: only the correlation id changes
}

func prepare(group string) prepared {
	switch *mode {
	case "commit", "groups":
		f := request(apiOffsetCommit, 7).string(group).int32(-1).string("").null()
		f.int32(1).string(*topic).int32(int32(*partitions))
		offsetAt := len(f.bytes) + 4
		for p := 0; p < *partitions; p++ {
			f.int32(int32(p)).int64(0).int32(-1).string("")
		}
		return prepared{f.done(), offsetAt}
	case "fetch":
		f := request(apiOffsetFetch, 5).string(group).int32(1).string(*topic).int32(int32(*partitions))
		for p := 0; p < *partitions; p++ {
			f.int32(int32(p))
		}
		return prepared{f.done(), 0}
	case "heartbeat": // of an unknown group, the cheapest request for a coordinator
		return prepared{request(apiHeartbeat, 3).string(group).int32(1).string("nobody").null().done(), 0}
	}
	return prepared{request(apiVersions, 0).done(), 0}
}

func (p prepared) put(out []byte, number int) []byte {
	at := len(out)
	out = append(out, p.bytes...)
	binary.BigEndian.PutUint32(out[at+correlationAt:], uint32(number))
	if p.offsetAt > 0 {
		binary.BigEndian.PutUint64(out[at+p.offsetAt:], uint64(number))
	}
	return out
}

// failed reports whether a response has an unexpected error code.
func failed(a *response) bool {
	if *echo {
		return false
	}
	switch *mode {
	case "commit", "groups":
		a.skip(4)
		a.skip(4)
		a.string()
		a.skip(8)
		return a.int16() != 0
	case "fetch":
		a.skip(4)
		a.skip(4)
		a.string()
		a.skip(8)
		offset := a.int64()
		a.skip(4)
		a.string()
		return a.int16() != 0 || offset < 0
	case "heartbeat":
		a.skip(4)
		return a.int16() != 25 // UNKNOWN_MEMBER_ID
	}
	return a.int16() != 0
}

func groupOf(c int) string { return fmt.Sprintf("%s-%d", *group, c) }

// warmUp creates the topic and one commit per group, for fetches. The first FindCoordinator request
// also makes Kafka create its offsets topic.
func warmUp() {
	if *echo || *mode == "apiversions" {
		return
	}
	createTopic(*topic, max(*partitions, 1))
	c := connect()
	defer c.close()
	previous := *mode
	*mode = "commit"
	for n := 0; n < *conns**spread; n++ {
		c.call(request(apiFindCoord, 0).string(groupOf(n)))
		waitUntil("a commit succeeded", func() bool {
			c.send(prepare(groupOf(n)).bytes)
			return !failed(c.read())
		})
	}
	*mode = previous
}

func waitUntil(condition string, done func() bool) {
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail("timed out after 20 s waiting until %s", condition)
		}
	}
}

func steady() {
	warmUp()
	var (
		mutex     sync.Mutex
		latencies []float64
		total     int
		errors    int
		all       sync.WaitGroup
	)
	ready := make(chan struct{})
	var stop time.Time
	for n := 0; n < *conns; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			c := connect()
			defer c.close()
			requests := make([]prepared, *spread)
			for k := range requests {
				requests[k] = prepare(groupOf(n + k**conns))
			}
			out := make([]byte, 0, *depth*len(requests[0].bytes))
			var mine []float64
			count, failures := 0, 0
			<-ready
			for start := time.Now(); start.Before(stop); start = time.Now() {
				out = out[:0]
				for k := 0; k < *depth; k++ {
					count++
					out = requests[count%*spread].put(out, count)
				}
				c.send(out)
				for k := 0; k < *depth; k++ {
					if failed(c.read()) {
						failures++
					}
				}
				mine = append(mine, milliseconds(time.Since(start)))
			}
			mutex.Lock()
			defer mutex.Unlock()
			latencies = append(latencies, mine...)
			total += count
			errors += failures
		}(n)
	}
	start := time.Now()
	stop = start.Add(time.Duration(*seconds * float64(time.Second)))
	close(ready)
	all.Wait()
	took := time.Since(start).Seconds()
	sorted(latencies)
	report(map[string]any{
		"mode": *mode, "conns": *conns, "depth": *depth, "requests": total, "errors": errors,
		"requests_s": float64(total) / took, "p50_ms": quantile(latencies, .5),
		"p99_ms": quantile(latencies, .99), "max_ms": quantile(latencies, 1),
	})
}

// manyGroups commits once for each of many groups, which fills the cache of offsets.
func manyGroups() {
	createTopic(*topic, *partitions)
	*mode = "groups"
	var all sync.WaitGroup
	var mutex sync.Mutex
	errors := 0
	start := time.Now()
	for n := 0; n < *conns; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			c := connect()
			defer c.close()
			var out []byte
			sent, failures := 0, 0
			flush := func() {
				c.send(out)
				for ; sent > 0; sent-- {
					if failed(c.read()) {
						failures++
					}
				}
				out = out[:0]
			}
			for g := n; g < *groups; g += *conns {
				out = prepare(groupOf(g)).put(out, g)
				if sent++; sent == *depth {
					flush()
				}
			}
			flush()
			mutex.Lock()
			errors += failures
			mutex.Unlock()
		}(n)
	}
	all.Wait()
	took := time.Since(start).Seconds()
	report(map[string]any{
		"mode": "groups", "groups": *groups, "partitions": *partitions, "errors": errors,
		"seconds": took, "requests_s": float64(*groups) / took,
	})
}
