// Package local is the channel of the terminal, `mercury ask` and the HTTP
// API. People there read the conversation itself, so a delivery to a local
// address is settled in the commit that stores it and nothing is ever sent;
// messages enter through intake directly.
package local

import (
	"context"

	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Name is the channel's half of an address.
const Name = "local"

// Channel is the local channel.
type Channel struct{}

func (Channel) Name() string { return Name }

// Listen waits for ctx to end: nothing arrives by itself.
func (Channel) Listen(ctx context.Context, _ func(context.Context, mercury.Message) error) error {
	<-ctx.Done()
	return nil
}

// Send reports the delivery as shown: its reader sees the conversation.
func (Channel) Send(_ context.Context, d mercury.Delivery, _ mercury.Part) (string, error) {
	return Name + ":" + d.ID, nil
}

// Limits has none: a conversation holds any text.
func (Channel) Limits() channel.Limits { return channel.Limits{} }
