package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// telegramAPI is the public Bot API server.
const telegramAPI = "https://api.telegram.org"

// Talks reports whether this Mercury can talk on the channel of that name.
func Talks(channel string) bool { return channel == "local" || channel == "relay" }

// CheckTelegram asks the configured Bot API server whose token that is
// (getMe) and returns the bot's user name. The error carries Telegram's own
// words and never the token, which is part of the address.
func CheckTelegram(ctx context.Context, c *config.Config, token string) (string, error) {
	api := telegramAPI
	if t := c.Channels.Telegram; t != nil && t.APIURL != "" {
		api = t.APIURL
	}
	if strings.Trim(token, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:-") != "" || !strings.Contains(token, ":") {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: errors.New("that is no bot token"),
			Help: "@BotFather gives one like 123456789:AA…, after /newbot."}
	}
	transport, err := newTransport(c.HTTP)
	if err != nil {
		return "", err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(api, "/")+"/bot"+token+"/getMe", nil)
	if err != nil {
		return "", errors.New("check the Telegram token: channels.telegram.api_url is no address")
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		var address *url.Error // it would show the token
		if errors.As(err, &address) {
			err = address.Err
		}
		return "", &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("reach Telegram at %s: %w", api, err), Help: "Look at the network, or set channels.telegram.api_url."}
	}
	defer resp.Body.Close()
	var answer struct {
		OK          bool   `json:"ok"`
		Description string `json:"description"`
		Result      struct {
			Username string `json:"username"`
		} `json:"result"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer); err != nil {
		return "", fmt.Errorf("check the Telegram token: %s answered %s and not like Telegram", api, resp.Status)
	}
	if !answer.OK {
		return "", &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("the words of Telegram: %s", strings.ReplaceAll(answer.Description, token, "…")),
			Help: "Copy the token again from @BotFather; /token there shows it, /revoke makes a new one."}
	}
	return answer.Result.Username, nil
}
