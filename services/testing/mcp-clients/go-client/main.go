// A client of the tool server that uses the official Go SDK. It has the same argument and the same output as client.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	slow    = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*), '%s' FROM t"
	runs    = "SELECT count(*) AS running FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%, ''%s'' FROM t%%' AND pid <> pg_backend_pid()"
	watched = "pg://schemas"
)

type way struct {
	Name       string            `json:"name"`
	URL        string            `json:"url"`
	Token      string            `json:"token"`
	Command    []string          `json:"command"`
	Env        map[string]string `json:"env"`
	Mode       string            `json:"mode"`
	Subscribes bool              `json:"subscribes"`
}

type found struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Tools     []string `json:"tools"`
	Text      string   `json:"text"`
	Refused   bool     `json:"refused"`
	Resource  string   `json:"resource"`
	Unknown   string   `json:"unknown"`
	Updated   string   `json:"updated,omitempty"`
	Cancelled bool     `json:"cancelled,omitempty"`
}

type bearer string

func (token bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(request)
}

func (w way) transport() mcp.Transport {
	if len(w.Command) > 0 {
		command := exec.Command(w.Command[0], w.Command[1:]...)
		command.Stderr = os.Stderr
		for name, value := range w.Env {
			command.Env = append(command.Env, name+"="+value)
		}
		return &mcp.CommandTransport{Command: command}
	}
	return &mcp.StreamableClientTransport{Endpoint: w.URL, HTTPClient: &http.Client{Transport: bearer(w.Token)}}
}

func query(ctx context.Context, session *mcp.ClientSession, statement string) (*mcp.CallToolResult, error) {
	arguments := map[string]any{"query": statement}
	return session.CallTool(ctx, &mcp.CallToolParams{Name: "query_database", Arguments: arguments})
}

func (w way) walk(ctx context.Context, subscribed func()) (found, error) {
	updates := make(chan string, 100)
	options := &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, request *mcp.ResourceUpdatedNotificationRequest) {
		updates <- request.Params.URI
	}}
	var connection *mcp.ClientSessionOptions
	if w.Mode == "legacy" {
		connection = &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(ctx, w.transport(), connection)
	if err != nil {
		return found{}, err
	}
	defer session.Close()
	result := found{Name: w.Name, Version: session.InitializeResult().ProtocolVersion}
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return found{}, err
	}
	for _, tool := range tools.Tools {
		result.Tools = append(result.Tools, tool.Name)
	}
	read, err := query(ctx, session, "SELECT name FROM fruit ORDER BY name")
	if err != nil {
		return found{}, err
	}
	result.Text = read.Content[0].(*mcp.TextContent).Text
	refused, err := query(ctx, session, "DELETE FROM fruit")
	if err != nil {
		return found{}, err
	}
	result.Refused = refused.IsError
	resource, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "pg://system_info"})
	if err != nil {
		return found{}, err
	}
	result.Resource = resource.Contents[0].Text
	if _, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "pg://nothing"}); err != nil {
		result.Unknown = err.Error()
	}
	if w.Subscribes {
		// With the newest protocol version, this call returns only when the subscription ends.
		failed := make(chan error, 1)
		go func() {
			if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: watched}); err != nil {
				failed <- err
			}
		}()
		subscribed()
		select {
		case result.Updated = <-updates:
		case err := <-failed:
			return found{}, err
		}
		result.Cancelled, err = cancelled(ctx, session, w.Name)
	}
	return result, err
}

// Whether a cancelled call ends at once in this client and in Postgres.
func cancelled(ctx context.Context, session *mcp.ClientSession, name string) (bool, error) {
	limited, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	if _, err := query(limited, session, fmt.Sprintf(slow, name)); err == nil || limited.Err() == nil {
		return false, err
	}
	for range 50 {
		running, err := query(ctx, session, fmt.Sprintf(runs, name))
		if err != nil {
			return false, err
		}
		if strings.Contains(running.Content[0].(*mcp.TextContent).Text, "\nrunning\n0\n") {
			return true, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false, nil
}

func main() {
	var ways []way
	if err := json.Unmarshal([]byte(os.Args[1]), &ways); err != nil {
		panic(err)
	}
	var ready, done sync.WaitGroup
	results := make([]found, len(ways))
	for index, w := range ways {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			subscribed := sync.OnceFunc(ready.Done)
			defer subscribed()
			result, err := w.walk(context.Background(), subscribed)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", w.Name, err)
			}
			results[index] = result
		}()
	}
	ready.Wait()
	fmt.Println("ready")
	done.Wait()
	text, err := json.Marshal(results)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
