// load is the load client of the benchmarks: it sends Kafka requests as fast as a server responds.
//
//	load -addr HOST:PORT -mode commit|fetch|heartbeat|apiversions|groups|rebalance|consumer|produce|consume|transactions
//
// It prints one line of JSON. With -echo the server is an echo server: the requests are the same,
// and the received frames are counted but not decoded.
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
	addr       = flag.String("addr", "127.0.0.1:9092", "address of the server")
	mode       = flag.String("mode", "commit", "kind of load")
	ca         = flag.String("ca", "", "connect with TLS, and trust the authority in this PEM file")
	user       = flag.String("user", "", "authenticate with SASL/PLAIN: NAME:PASSWORD")
	echo       = flag.Bool("echo", false, "the server is an echo server: do not decode responses")
	conns      = flag.Int("conns", 50, "connections; modes rebalance and consumer: members")
	depth      = flag.Int("depth", 20, "requests that a connection sends before it reads the responses")
	seconds    = flag.Float64("seconds", 3, "duration of the load")
	partitions = flag.Int("partitions", 1, "partitions per commit and offset fetch")
	topic      = flag.String("topic", "bench", "topic; created if missing")
	group      = flag.String("group", "bench", "group, or prefix of the group names")
	groups     = flag.Int("groups", 100_000, "mode groups: groups that commit once each")
	spread     = flag.Int("spread", 1, "modes commit and fetch: groups per connection, used in turn")
	rounds     = flag.Int("rounds", 7, "mode rebalance: rebalances")
	record     = flag.Int("record", 1_000, "modes produce and transactions: bytes per record value")
	batch      = flag.Int("batch", 100_000, "mode produce: bytes per batch")
	megabytes  = flag.Int("megabytes", 300, "mode produce: megabytes to send")
)

// fail ends the program: a failed benchmark prints no figures.
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

// quantile returns a quantile of sorted values.
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
	case "consumer":
		consumerGroup()
	case "produce":
		produce()
	case "consume":
		consume()
	case "transactions":
		transactions()
	default:
		fail("unknown mode %q; see -help", *mode)
	}
}
