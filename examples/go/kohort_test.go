package billing

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Kohort is a broker in its own process, and its control API (docs/control.md).
type Kohort struct {
	t                         *testing.T
	BootstrapServers, control string
}

func startKohort(t *testing.T) *Kohort {
	t.Helper()
	serve := "serve --port 0 --control-port 0 --control-preset instant --log-level error"
	command := exec.Command("kohort", strings.Fields(serve)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	after := func(prefix string) string {
		lines.Scan()
		found := regexp.MustCompile(prefix + `(\S+)`).FindStringSubmatch(lines.Text())
		if found == nil {
			t.Fatalf("kohort did not start: %q", lines.Text())
		}
		return found[1]
	}
	return &Kohort{t, after("listening on "), after("control ")}
}

// Request fails the test with the response's error if its status is not 200.
func (k *Kohort) Request(method, path, json string) string {
	k.t.Helper()
	request, err := http.NewRequest(method, k.control+path, strings.NewReader(json))
	if err != nil {
		k.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		k.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		k.t.Fatalf("%s %s: %s", method, path, body)
	}
	return string(body)
}

func (k *Kohort) Post(path, json string) string {
	k.t.Helper()
	return k.Request("POST", path, json)
}
