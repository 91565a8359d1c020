package setup

import (
	"context"
	"fmt"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/tui"
)

const telegramVariable = "TELEGRAM_BOT_TOKEN"

// telegram asks for the bot's token until Telegram knows it, or it is left
// out.
func (w *wizard) telegram(ctx context.Context) error {
	w.say("Talk to it from Telegram too? Make a bot with @BotFather (/newbot) and paste its token.")
	prompt := "Token (Enter: not now):"
	if w.c.Channels.Telegram != nil {
		prompt = "Token (Enter keeps the bot there is):"
	}
	for {
		token, err := w.ask(ctx, prompt, tui.Hidden)
		if err != nil || token == "" {
			return err
		}
		if err := w.keepTelegram(ctx, token); err != nil {
			w.complain(err)
			continue
		}
		return nil
	}
}

// keepTelegram keeps a token that Telegram knows.
func (w *wizard) keepTelegram(ctx context.Context, token string) error {
	name, err := daemon.CheckTelegram(ctx, w.c, token)
	if err != nil {
		return err
	}
	variable := telegramVariable
	if set := w.environment(variable); set != "" && set != token {
		variable = "MY_" + variable // the process's own would win
	}
	if err := config.SetVariable(w.o.Source.Home, variable, token); err != nil {
		return err
	}
	if err := w.keep(config.Setting{Key: "channels.telegram.token", Value: "${" + variable + "}"}); err != nil {
		return err
	}
	w.say(fmt.Sprintf("It is @%s. Whoever writes to it first is asked to pair.", tui.Safe(name)))
	return nil
}
