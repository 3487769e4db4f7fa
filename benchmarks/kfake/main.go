// kfake runs franz-go's fake Kafka cluster for comparison with kohort: `kfake [FOLDER [sync]]`.
//
// With KFAKE_PEM, a file with a private key and its certificate, clients connect with TLS and
// authenticate as alice with alice-secret. It prints its address when it listens, and stops on SIGTERM or SIGINT.
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		// As in the scenarios of `kohort conformance`.
		kfake.GroupMinSessionTimeout(500 * time.Millisecond),
		kfake.GroupMaxSessionTimeout(30 * time.Minute),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}
	if len(os.Args) > 1 {
		options = append(options, kfake.DataDir(os.Args[1]))
	}
	if len(os.Args) > 2 {
		options = append(options, kfake.SyncWrites())
	}
	if file := os.Getenv("KFAKE_PEM"); file != "" {
		certificate, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options,
			kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}),
			kfake.EnableSASL(),
			kfake.Superuser("PLAIN", "alice", "alice-secret"),
		)
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println("listening on", cluster.ListenAddrs()[0])
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	<-stopped
}
