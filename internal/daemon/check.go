package daemon

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// CheckModel asks the configured model one short question, so that a wrong key
// or name is found before a person relies on it. The error carries the
// provider's own words.
func CheckModel(ctx context.Context, c *config.Config) error {
	hide := newSecrets(c, "")
	transport, err := newTransport(c.HTTP)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	provider, model, ok := config.SplitModel(c.Model)
	if !ok {
		return &mercury.Error{Kind: mercury.Setup, Err: errors.New("no model is named"), Help: "Name one as provider/model."}
	}
	ask, err := client(c, provider, transport)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = screen{ask, hide}.Stream(ctx, llm.Request{Model: model, MaxTokens: 64, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "Say ok."}}}}}, func(llm.Event) {})
	if llm.ClassOf(err) == llm.Empty { // it answered; a model may think its few tokens away
		return nil
	}
	return err
}

// TryModel is CheckModel for a model that need not be configured: the
// configuration is taken as it would be with it. A keyless server of this
// machine needs no entry in the file.
func TryModel(ctx context.Context, src config.Source, model string) error {
	flags := map[string]string{}
	maps.Copy(flags, src.Flags)
	flags["model"] = model
	src.Flags = flags
	c, err := config.Load(src)
	if err != nil {
		return err
	}
	if err := c.Configured(); err != nil {
		return err
	}
	return CheckModel(ctx, c)
}
