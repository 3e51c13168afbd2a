// A client that must log in, with the official Go SDK. It has the same arguments and the same output as oauth_client.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func signIn(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	fmt.Println(args.URL)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return nil, err
	}
	back, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		return nil, err
	}
	query := back.Query()
	return &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}, nil
}

func main() {
	server, redirect, tool := os.Args[1], os.Args[2], os.Args[3]
	wait, err := time.ParseDuration(os.Args[4] + "s")
	check(err)
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{redirect},
			ClientName:   "Go SDK",
			GrantTypes:   []string{"authorization_code", "refresh_token"},
		}},
		RedirectURL:              redirect,
		RequestRefreshToken:      true,
		AuthorizationCodeFetcher: signIn,
	})
	check(err)
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server, OAuthHandler: handler}, nil)
	check(err)
	defer session.Close()
	var said []string
	for range 2 {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		check(err)
		said = append(said, result.Content[0].(*mcp.TextContent).Text)
		if len(said) == 1 {
			time.Sleep(wait)
		}
	}
	text, err := json.Marshal(said)
	check(err)
	fmt.Println(string(text))
}
