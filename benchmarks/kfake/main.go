// kfake runs franz-go's fake Kafka cluster for comparison with kohort: `kfake [FOLDER [sync]]`.
//
// It prints its address when it listens, and stops on SIGTERM or SIGINT.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}
	if len(os.Args) > 1 {
		options = append(options, kfake.DataDir(os.Args[1]))
	}
	if len(os.Args) > 2 {
		options = append(options, kfake.SyncWrites())
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
