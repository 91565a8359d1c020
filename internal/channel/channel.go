// Package channel is the contract of the places where people talk to Mercury.
// A driver turns what its platform sends into messages and shows deliveries
// to people; what becomes of a message is decided in intake, when a delivery
// goes out and what its outcome means in engine.
//
// Drivers live in the folders beside this file. The suite in channeltest holds
// each of them to the contract.
package channel

import (
	"context"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Channel is a place where people talk to Mercury.
type Channel interface {
	// Name is the channel's half of an address, such as "relay".
	Name() string

	// Listen hands each arriving message to accept until ctx ends. It tells
	// the platform that a message is taken only after accept returned nil, so
	// what a crash swallows is offered to us again. Messages of one place are
	// offered in order. An outage of the platform is waited out; Listen
	// returns early only when a person must act (a refused token), with a
	// mercury.Error of kind Setup.
	Listen(ctx context.Context, accept func(context.Context, mercury.Message) error) error

	// Send shows one part of a delivery to its reader and returns the
	// platform's receipt. A Transient, Invalid or Denied error means that
	// nothing was shown; after any other nobody knows, and the engine keeps
	// the part as unknown rather than repeat it.
	Send(ctx context.Context, d mercury.Delivery, p mercury.Part) (receipt string, err error)

	// Limits says what one message may carry.
	Limits() Limits
}

// Limits bound one message of a channel.
type Limits struct {
	Text  int  // UTF-16 code units; 0 is no limit
	Files bool // files can be sent as messages of their own
}

// A Place remembers how far a channel has read. Save is durable when it
// returns, and fails once another process holds the channel.
type Place interface {
	Load(ctx context.Context) (cursor string, err error)
	Save(ctx context.Context, cursor string) error
}
