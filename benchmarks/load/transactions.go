package main

import (
	"fmt"
	"sync"
	"time"
)

const (
	notLeader              = 6 // of a topic that is being created
	recordsPerTransaction  = 10
	coordinatorUnavailable = 15
	concurrentTransactions = 51
	// Less than the backoff of real clients, so that the server is what limits the load.
	retryAfter = time.Millisecond
)

// transactions measures transactions of ten records in one partition; each connection is a
// producer with a partition of its own.
func transactions() {
	createTopic(*topic, *conns)
	var all, ready sync.WaitGroup
	begin := make(chan struct{})
	latencies := make([][]float64, *conns)
	ready.Add(*conns)
	for n := 0; n < *conns; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			c := connect()
			defer c.close()
			id := fmt.Sprintf("%s-%d", *group, n)
			sender := initProducer(c, id)
			transaction(c, id, n, &sender)
			ready.Done()
			<-begin
			for end := time.Now().Add(time.Duration(*seconds * float64(time.Second))); time.Now().Before(end); {
				start := time.Now()
				transaction(c, id, n, &sender)
				latencies[n] = append(latencies[n], milliseconds(time.Since(start)))
			}
		}(n)
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	all.Wait()
	took := time.Since(start)
	var each []float64
	for _, mine := range latencies {
		each = append(each, mine...)
	}
	each = sorted(each)
	report(map[string]any{
		"mode": *mode, "conns": *conns, "errors": 0, "transactions_s": float64(len(each)) / took.Seconds(),
		"p50_ms": quantile(each, 0.5), "p99_ms": quantile(each, 0.99),
	})
}

// untilDone repeats a request while the server is not ready; code returns the response's error.
func untilDone(what string, code func() int16) {
	for {
		switch error := code(); error {
		case 0:
			return
		case coordinatorLoadInProgress, notLeader, coordinatorUnavailable, notCoordinator, concurrentTransactions:
			time.Sleep(retryAfter)
		default:
			fail("%s failed with error %d", what, error)
		}
	}
}

func initProducer(c *connection, id string) producer {
	f := request(apiFindCoord, 1).string(id).int8(1).done()
	untilDone("finding the coordinator", func() int16 {
		c.send(f)
		a := c.read()
		a.skip(4)
		return a.int16()
	})
	sender := producer{}
	f = request(apiInitProducerID, 1).string(id).int32(60_000).done()
	untilDone("InitProducerId", func() int16 {
		c.send(f)
		a := c.read()
		a.skip(4)
		error := a.int16()
		sender.id, sender.epoch = a.int64(), a.int16()
		return error
	})
	return sender
}

func transaction(c *connection, id string, partition int, sender *producer) {
	f := request(apiAddPartitions, 1).string(id).int64(sender.id).int16(sender.epoch)
	add := f.int32(1).string(*topic).int32(1).int32(int32(partition)).done()
	untilDone("AddPartitionsToTxn", func() int16 {
		c.send(add)
		a := c.read()
		a.skip(8)
		a.string()
		a.skip(8)
		return a.int16()
	})
	batch := recordBatch(time.Now(), recordsPerTransaction, sender)
	send := batchTo(request(apiProduce, 3).string(id).int16(-1), partition, batch)
	untilDone("Produce", func() int16 {
		c.send(send)
		return produceError(c.read())
	})
	sender.sequence += recordsPerTransaction
	end := request(apiEndTxn, 1).string(id).int64(sender.id).int16(sender.epoch).int8(1).done()
	untilDone("EndTxn", func() int16 {
		c.send(end)
		a := c.read()
		a.skip(4)
		return a.int16()
	})
}
