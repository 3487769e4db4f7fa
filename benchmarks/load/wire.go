package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

const (
	apiProduce          = 0
	apiFetch            = 1
	apiListOffsets      = 2
	apiOffsetCommit     = 8
	apiOffsetFetch      = 9
	apiFindCoord        = 10
	apiJoinGroup        = 11
	apiHeartbeat        = 12
	apiSyncGroup        = 14
	apiSaslHandshake    = 17
	apiVersions         = 18
	apiCreateTopics     = 19
	apiInitProducerID   = 22
	apiAddPartitions    = 24
	apiEndTxn           = 26
	apiSaslAuthenticate = 36
	apiConsumer         = 68
)

// The position of the correlation id in a request, after size, API key and version.
const correlationAt = 8

// frame encodes one request in a version that is not flexible.
type frame struct{ bytes []byte }

func request(key, version int16) *frame {
	f := &frame{bytes: make([]byte, 4, 256)}
	f.int16(key).int16(version).int32(0).string("bench")
	return f
}

func (f *frame) int8(v int8) *frame { f.bytes = append(f.bytes, byte(v)); return f }
func (f *frame) int16(v int16) *frame {
	f.bytes = binary.BigEndian.AppendUint16(f.bytes, uint16(v))
	return f
}
func (f *frame) int32(v int32) *frame {
	f.bytes = binary.BigEndian.AppendUint32(f.bytes, uint32(v))
	return f
}
func (f *frame) int64(v int64) *frame {
	f.bytes = binary.BigEndian.AppendUint64(f.bytes, uint64(v))
	return f
}
func (f *frame) null() *frame { return f.int16(-1) }
func (f *frame) string(v string) *frame {
	f.int16(int16(len(v)))
	f.bytes = append(f.bytes, v...)
	return f
}
func (f *frame) blob(v []byte) *frame {
	f.int32(int32(len(v)))
	f.bytes = append(f.bytes, v...)
	return f
}

// uvarint, compact and nullCompact are for flexible versions; a count is one more than the length.
func (f *frame) uvarint(v int) *frame {
	f.bytes = binary.AppendUvarint(f.bytes, uint64(v))
	return f
}
func (f *frame) compact(v string) *frame {
	f.uvarint(len(v) + 1)
	f.bytes = append(f.bytes, v...)
	return f
}
func (f *frame) nullCompact() *frame { return f.int8(0) }
func (f *frame) tags() *frame        { return f.int8(0) }

// done fills in the size and returns the frame.
func (f *frame) done() []byte {
	binary.BigEndian.PutUint32(f.bytes, uint32(len(f.bytes)-4))
	return f.bytes
}

// response decodes a response; it starts with the correlation id.
type response struct {
	bytes []byte
	at    int
}

func (a *response) skip(n int) { a.at += n }
func (a *response) int16() int16 {
	a.at += 2
	return int16(binary.BigEndian.Uint16(a.bytes[a.at-2:]))
}
func (a *response) int32() int32 {
	a.at += 4
	return int32(binary.BigEndian.Uint32(a.bytes[a.at-4:]))
}
func (a *response) int64() int64 {
	a.at += 8
	return int64(binary.BigEndian.Uint64(a.bytes[a.at-8:]))
}
func (a *response) int8() int8 {
	a.at++
	return int8(a.bytes[a.at-1])
}
func (a *response) uvarint() int {
	v, n := binary.Uvarint(a.bytes[a.at:])
	a.at += n
	return int(v)
}
func (a *response) compact() string {
	n := max(a.uvarint()-1, 0)
	a.at += n
	return string(a.bytes[a.at-n : a.at])
}
func (a *response) string() string {
	n := int(a.int16())
	if n < 0 {
		return ""
	}
	a.at += n
	return string(a.bytes[a.at-n : a.at])
}
func (a *response) blob() []byte {
	n := int(a.int32())
	if n < 0 {
		return nil
	}
	a.at += n
	return a.bytes[a.at-n : a.at]
}

// connection sends and receives frames; any failure ends the program.
type connection struct {
	socket net.Conn
	reader *bufio.Reader
	buffer []byte
}

func connect() *connection {
	socket, err := dial()
	if err != nil {
		fail("%v", err)
	}
	c := &connection{socket: socket, reader: bufio.NewReaderSize(socket, 1<<16)}
	if *user != "" {
		c.authenticate()
	}
	return c
}

// authorities holds the certificates in the file of -ca; nil if TLS is not used.
var authorities = sync.OnceValue(func() *x509.CertPool {
	if *ca == "" {
		return nil
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		fail("%v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
})

func dial() (net.Conn, error) {
	if pool := authorities(); pool != nil {
		return tls.Dial("tcp", *addr, &tls.Config{RootCAs: pool})
	}
	return net.Dial("tcp", *addr)
}

func (c *connection) authenticate() {
	name, password, _ := strings.Cut(*user, ":")
	handshake := request(apiSaslHandshake, 1)
	handshake.string("PLAIN")
	if code := c.call(handshake).int16(); code != 0 {
		fail("SaslHandshake: error %d", code)
	}
	authenticate := request(apiSaslAuthenticate, 1)
	authenticate.blob([]byte("\x00" + name + "\x00" + password))
	if code := c.call(authenticate).int16(); code != 0 {
		fail("SaslAuthenticate: error %d", code)
	}
}

func (c *connection) close() { c.socket.Close() }

func (c *connection) send(bytes []byte) {
	if _, err := c.socket.Write(bytes); err != nil {
		fail("send: %v", err)
	}
}

// read returns the next frame without its size, valid until the next call.
func (c *connection) read() *response {
	var size [4]byte
	if _, err := io.ReadFull(c.reader, size[:]); err != nil {
		fail("read: %v", err)
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if cap(c.buffer) < n {
		c.buffer = make([]byte, n)
	}
	c.buffer = c.buffer[:n]
	if _, err := io.ReadFull(c.reader, c.buffer); err != nil {
		fail("read: %v", err)
	}
	return &response{bytes: c.buffer, at: 4}
}

func (c *connection) call(f *frame) *response {
	c.send(f.done())
	return c.read()
}
