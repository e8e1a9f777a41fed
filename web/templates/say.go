package templates

import (
	"context"

	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/messages"
)

// say says a message of a template's own in the reader's language.
func say(ctx context.Context, message string, args ...any) string {
	return t(ctx, text.Of(message, args...))
}

// t says what a view model holds in the reader's language.
func t(ctx context.Context, x text.Text) string { return messages.From(ctx).Say(x) }
