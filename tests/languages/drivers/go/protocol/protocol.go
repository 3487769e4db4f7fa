// Package protocol is what the drivers in Go share: commands on standard input, and events on
// standard output (see tests/languages/driver.py).
package protocol

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

type Security struct {
	Protocol, Mechanism, User, Password, CA string
}

// TLS returns the configuration for the broker's certificate, or nil without TLS.
func (s *Security) TLS() *tls.Config {
	if s == nil || s.Protocol != "SASL_SSL" {
		return nil
	}
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

type Command struct {
	N                int
	Do, ID           string
	Servers          string
	Security         *Security
	Group, Instance  string
	Topics           []string
	Pattern          string
	SessionMs        int  `json:"session_ms"`
	HeartbeatMs      int  `json:"heartbeat_ms"`
	ReadCommitted    bool `json:"read_committed"`
	Cooperative      bool
	ConsumerProtocol bool   `json:"consumer_protocol"`
	TransactionalID  string `json:"transactional_id"`
	Topic            string
	Partition        int32
	Offset           int64
	Values           []string
	Commit           bool
}

type Described struct {
	Groups  []string `json:"groups"`
	State   string   `json:"state"`
	Members int      `json:"members"`
	Offsets [][3]any `json:"offsets"`
}

// Unsupported is returned for what the library lacks.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Member is a consumer that polls in the background.
type Member interface {
	Commit(topic string, partition int32, offset int64) error
	Close() error
}

// Producer is transactional; Begin creates its first transaction too.
type Producer interface {
	Begin() error
	Send(topic string, partition int32, values []string) error
	End(commit bool) error
}

// Library is what a driver implements.
type Library interface {
	Subscribe(c *Command, events *Events) (Member, error)
	Produce(c *Command) error
	NewProducer(c *Command) (Producer, error)
	Describe(c *Command) (*Described, error)
}

// Events of one member.
type Events struct{ id string }

func (e *Events) Record(topic string, partition int32, offset int64, value []byte) {
	write(map[string]any{
		"id": e.id, "event": "record", "topic": topic, "partition": partition, "offset": offset, "value": string(value),
	})
}

func (e *Events) Assignment(partitions map[string][]int32) {
	pairs := [][2]any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			pairs = append(pairs, [2]any{topic, number})
		}
	}
	write(map[string]any{"id": e.id, "event": "assignment", "partitions": pairs})
}

func (e *Events) Error(err error) {
	write(map[string]any{"id": e.id, "event": "error", "error": describe(err)})
}

var output sync.Mutex

func write(event map[string]any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func describe(err error) string { return fmt.Sprintf("%T: %v", err, err) }

// Run carries out the commands until the input ends: those of one id in their order.
func Run(library Library) {
	queues := map[string]chan *Command{}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		command := &Command{}
		if err := json.Unmarshal(input.Bytes(), command); err != nil {
			panic(err)
		}
		if command.ID == "" {
			go respond(command, func() (any, error) { return once(library, command) })
			continue
		}
		queue := queues[command.ID]
		if queue == nil {
			queue = make(chan *Command, 100)
			queues[command.ID] = queue
			go serve(library, queue)
		}
		queue <- command
	}
}

func once(library Library, c *Command) (any, error) {
	if c.Do == "describe" {
		return library.Describe(c)
	}
	return nil, library.Produce(c)
}

// serve carries out the commands of one member or producer.
func serve(library Library, queue chan *Command) {
	var member Member
	var producer Producer
	for command := range queue {
		respond(command, func() (_ any, err error) {
			switch command.Do {
			case "subscribe":
				member, err = library.Subscribe(command, &Events{command.ID})
			case "commit":
				err = member.Commit(command.Topic, command.Partition, command.Offset)
			case "close":
				if member != nil { // otherwise it could not subscribe
					err = member.Close()
				}
			case "begin":
				if producer == nil {
					producer, err = library.NewProducer(command)
				}
				if err == nil {
					err = producer.Begin()
				}
			case "send":
				err = producer.Send(command.Topic, command.Partition, command.Values)
			case "end":
				err = producer.End(command.Commit)
			default:
				panic(command.Do)
			}
			return nil, err
		})
	}
}

// respond writes the result, whose fields are those of what carryOut returns.
func respond(command *Command, carryOut func() (any, error)) {
	result := map[string]any{"n": command.N}
	found, err := carryOut()
	var unsupported Unsupported
	if errors.As(err, &unsupported) {
		result["unsupported"] = string(unsupported)
	} else if err != nil {
		result["error"] = describe(err)
	} else if found != nil {
		line, _ := json.Marshal(found)
		json.Unmarshal(line, &result)
	}
	write(result)
}
