// The Go client and worker of Faktory's authors, driven from the command line; clients.py two folders above says how.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"strings"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"
)

const beatEvery = 300 * time.Millisecond

func say(key string, value any) {
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{key: value}); err != nil {
		log.Fatal(err)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func withClient(act func(*faktory.Client) error) {
	client, err := faktory.Open()
	must(err)
	defer client.Close()
	must(act(client))
}

func push(argument string) {
	var job faktory.Job
	must(json.Unmarshal([]byte(argument), &job))
	withClient(func(client *faktory.Client) error {
		err := client.Push(&job)
		say("pushed", err == nil)
		return err
	})
}

func bulk(argument string) {
	var jobs []*faktory.Job
	must(json.Unmarshal([]byte(argument), &jobs))
	withClient(func(client *faktory.Client) error {
		refused, err := client.PushBulk(jobs)
		say("refused", refused)
		return err
	})
}

func info(string) {
	withClient(func(client *faktory.Client) error {
		figures, err := client.Info()
		say("info", figures)
		return err
	})
}

func mutate(argument string) {
	var order struct {
		Cmd    string
		Target faktory.Structure
		Filter faktory.JobFilter
	}
	must(json.Unmarshal([]byte(argument), &order))
	withClient(func(client *faktory.Client) error {
		var err error
		switch order.Cmd {
		case "clear":
			err = client.Clear(order.Target)
		case "discard":
			err = client.Discard(order.Target, order.Filter)
		case "kill":
			err = client.Kill(order.Target, order.Filter)
		case "requeue":
			err = client.Requeue(order.Target, order.Filter)
		default:
			err = errors.New("no such command: " + order.Cmd)
		}
		say("mutated", err == nil)
		return err
	})
}

// The worker's own heartbeat comes every 15 s and cannot be set; this one does the same sooner.
func beat(manager *worker.Manager) {
	for range time.Tick(beatEvery) {
		_ = manager.Pool.With(func(client *faktory.Client) error {
			state, err := client.Beat()
			switch {
			case strings.Contains(state, "quiet"):
				manager.Quiet()
			case strings.Contains(state, "terminate"):
				go manager.Terminate(true)
			}
			return err
		})
	}
}

func work(argument string) {
	var options struct{ Queue, Wid string }
	must(json.Unmarshal([]byte(argument), &options))
	manager := worker.NewManager()
	manager.Concurrency = 1
	manager.ProcessWID = options.Wid
	manager.ProcessStrictPriorityQueues(options.Queue)
	manager.Register("echo", func(_ context.Context, args ...any) error {
		say("ran", args)
		return nil
	})
	manager.Register("fail", func(_ context.Context, args ...any) error {
		say("failing", args)
		return errors.New("boom")
	})
	manager.On(worker.Startup, func(*worker.Manager) error {
		go beat(manager)
		return nil
	})
	manager.On(worker.Quiet, func(*worker.Manager) error {
		say("quiet", true)
		return nil
	})
	must(manager.Run())
}

func main() {
	must(os.Setenv("FAKTORY_URL", os.Args[2]))
	verbs := map[string]func(string){"push": push, "bulk": bulk, "info": info, "mutate": mutate, "work": work}
	verbs[os.Args[1]](os.Args[3])
}
