// load is the other end of the benchmarks: it sends Kafka frames as fast as a server answers them.
//
//	load -addr HOST:PORT -mode commit|fetch|heartbeat|apiversions|groups|rebalance|produce|consume
//
// It prints one line of JSON. With -echo the server is one that sends back what it gets: the same
// frames go out, and what comes back is counted but not read as answers.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"
)

var (
	addr       = flag.String("addr", "127.0.0.1:9092", "the server")
	mode       = flag.String("mode", "commit", "what to send")
	echo       = flag.Bool("echo", false, "the server echoes; its answers are not Kafka's")
	conns      = flag.Int("conns", 50, "connections; in mode rebalance: members")
	depth      = flag.Int("depth", 20, "requests that a connection sends before it reads the answers")
	seconds    = flag.Float64("seconds", 3, "how long to load")
	partitions = flag.Int("partitions", 1, "partitions per commit and offset fetch")
	topic      = flag.String("topic", "bench", "topic; created where it is missing")
	group      = flag.String("group", "bench", "group, or what the groups' names begin with")
	groups     = flag.Int("groups", 100_000, "mode groups: commit once for each of so many groups")
	spread     = flag.Int("spread", 1, "modes commit and fetch: groups that each connection takes in turn")
	rounds     = flag.Int("rounds", 7, "mode rebalance: rounds")
	record     = flag.Int("record", 1_000, "mode produce: bytes of a record's value")
	batch      = flag.Int("batch", 100_000, "mode produce: bytes of a batch")
	megabytes  = flag.Int("megabytes", 300, "mode produce: how much to send")
)

// A mistake in a benchmark must not look like a figure.
func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "load: "+format+"\n", values...)
	os.Exit(1)
}

func report(values map[string]any) {
	line, err := json.Marshal(values)
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(line))
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// quantile of sorted values.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(share*float64(len(sorted)-1))]
}

func sorted(values []float64) []float64 { sort.Float64s(values); return values }

func main() {
	flag.Parse()
	switch *mode {
	case "commit", "fetch", "heartbeat", "apiversions":
		steady()
	case "groups":
		manyGroups()
	case "rebalance":
		rebalance()
	case "produce":
		produce()
	case "consume":
		consume()
	default:
		fail("there is no mode %q", *mode)
	}
}
