package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"
)

const topicAlreadyExists = 36

func createTopic(name string, partitions int) {
	c := connect()
	defer c.close()
	f := request(apiCreateTopics, 2).int32(1).string(name).int32(int32(partitions)).int16(1)
	a := c.call(f.int32(0).int32(0).int32(30_000).int8(0))
	a.skip(4)
	a.skip(4)
	a.string()
	if code := a.int16(); code != 0 && code != topicAlreadyExists {
		fail("creating topic %s failed with error %d", name, code)
	}
}

// producer identifies the sender of a transactional batch.
type producer struct {
	id       int64
	epoch    int16
	sequence int32
}

// recordBatch returns an uncompressed RecordBatch v2 of count records. It is transactional unless
// sender is nil.
func recordBatch(now time.Time, count int, sender *producer) []byte {
	value := bytes.Repeat([]byte{'v'}, *record)
	attributes := int16(0)
	if sender == nil {
		sender = &producer{-1, -1, -1}
	} else {
		attributes = 0x10
	}
	var records []byte
	for n := 0; n < count; n++ {
		one := []byte{0}                               // attributes
		one = binary.AppendVarint(one, 0)              // timestamp delta
		one = binary.AppendVarint(one, int64(n))       // offset delta
		one = binary.AppendVarint(one, -1)             // no key
		one = binary.AppendVarint(one, int64(*record)) // value
		one = append(one, value...)
		one = binary.AppendVarint(one, 0) // headers
		records = binary.AppendVarint(records, int64(len(one)))
		records = append(records, one...)
	}
	body := (&frame{}).int16(attributes).int32(int32(count - 1)) // and the last offset delta
	body.int64(now.UnixMilli()).int64(now.UnixMilli())
	body.int64(sender.id).int16(sender.epoch).int32(sender.sequence)
	body.int32(int32(count))
	body.bytes = append(body.bytes, records...)
	sum := crc32.Checksum(body.bytes, crc32.MakeTable(crc32.Castagnoli))
	head := (&frame{}).int64(0).int32(int32(len(body.bytes) + 9)).int32(-1).int8(2).int32(int32(sum))
	return append(head.bytes, body.bytes...)
}

func produceFrame(partition int, batch []byte) []byte {
	return batchTo(request(apiProduce, 3).null().int16(1), partition, batch)
}

// batchTo completes a Produce request with its timeout, and one batch.
func batchTo(f *frame, partition int, batch []byte) []byte {
	f.int32(30_000)
	return f.int32(1).string(*topic).int32(1).int32(int32(partition)).blob(batch).done()
}

func produce() {
	createTopic(*topic, *conns)
	batch := recordBatch(time.Now(), max(1, *batch/(*record+16)), nil)
	each := *megabytes * 1_000_000 / len(batch) / *conns
	var all sync.WaitGroup
	start := time.Now()
	for n := 0; n < *conns; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			c := connect()
			defer c.close()
			f := produceFrame(n, batch)
			waitUntil("a produce request succeeded", func() bool { c.send(f); return produceError(c.read()) == 0 })
			inFlight := 0
			for sent := 1; sent < each || inFlight > 0; {
				for ; inFlight < *depth && sent < each; inFlight++ {
					c.send(f)
					sent++
				}
				if code := produceError(c.read()); code != 0 {
					fail("produce failed with error %d", code)
				}
				inFlight--
			}
		}(n)
	}
	all.Wait()
	reportTransfer(each*len(batch)**conns, time.Since(start))
}

func produceError(a *response) int16 {
	a.skip(4)
	a.string()
	a.skip(8)
	return a.int16()
}

func reportTransfer(size int, took time.Duration) {
	report(map[string]any{
		"mode": *mode, "conns": *conns, "depth": *depth, "errors": 0, "megabytes": float64(size) / 1e6,
		"seconds": took.Seconds(), "megabytes_s": float64(size) / 1e6 / took.Seconds(),
	})
}

// consume reads each partition from beginning to end with one connection per partition.
func consume() {
	var all sync.WaitGroup
	var mutex sync.Mutex
	size := 0
	start := time.Now()
	for n := 0; n < *conns; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			c := connect()
			defer c.close()
			mine := 0
			for offset, end := int64(0), endOffset(c, n); offset < end; {
				records := fetch(c, n, offset)
				mine += len(records)
				offset = nextOffset(records, offset)
			}
			mutex.Lock()
			size += mine
			mutex.Unlock()
		}(n)
	}
	all.Wait()
	reportTransfer(size, time.Since(start))
}

func endOffset(c *connection, partition int) int64 {
	f := request(apiListOffsets, 1).int32(-1).int32(1).string(*topic).int32(1)
	a := c.call(f.int32(int32(partition)).int64(-1))
	a.skip(4)
	a.string()
	a.skip(8)
	if code := a.int16(); code != 0 {
		fail("the end offset of partition %d failed with error %d", partition, code)
	}
	a.skip(8)
	return a.int64()
}

func fetch(c *connection, partition int, offset int64) []byte {
	f := request(apiFetch, 4).int32(-1).int32(500).int32(1).int32(50 << 20).int8(0)
	a := c.call(f.int32(1).string(*topic).int32(1).int32(int32(partition)).int64(offset).int32(1 << 20))
	a.skip(8)
	a.string()
	a.skip(8)
	if code := a.int16(); code != 0 {
		fail("fetch of partition %d at offset %d failed with error %d", partition, offset, code)
	}
	a.skip(16)
	if aborted := a.int32(); aborted > 0 {
		fail("fetch returned %d aborted transactions, expected none", aborted)
	}
	return a.blob()
}

// nextOffset returns the offset after the last complete batch; a fetch may truncate the last batch.
func nextOffset(records []byte, offset int64) int64 {
	for at := 0; at+61 <= len(records); {
		length := int(binary.BigEndian.Uint32(records[at+8:]))
		if at+12+length > len(records) {
			break
		}
		base := int64(binary.BigEndian.Uint64(records[at:]))
		offset = base + int64(binary.BigEndian.Uint32(records[at+23:])) + 1
		at += 12 + length
	}
	return offset
}
