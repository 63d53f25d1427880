package hold

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// A round shorter than brief is followed by a pause, which doubles from one such round to the next.
const (
	brief      = time.Second
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Repeat acquires a hold and runs a round under it, repeatedly, until a round asks for no further one or ctx is done.
// Each round releases its hold. While all servers reject the credentials, Repeat retries with pauses.
//
// Errors: those of acquire other than rejected credentials; the last round's error; the cause of ctx.
func Repeat(
	ctx context.Context,
	acquire func(context.Context) (*zkrecipes.Hold, error),
	round func(context.Context, *zkrecipes.Hold) (again bool, err error),
) error {
	if ctx == nil {
		return session.ErrNoContext
	}
	pauses := pause.New(firstPause, lastPause, 2)
	for ctx.Err() == nil {
		h, err := acquire(ctx)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, zkrecipes.ErrAuthFailed)) {
			return err
		}
		if err == nil { // otherwise the credentials are rejected, and the client keeps trying
			began := time.Now()
			if again, err := round(ctx, h); !again {
				return err
			}
			if time.Since(began) >= brief {
				pauses.Reset()
				continue
			}
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return session.CauseOf(ctx)
}

// Run is [Do], repeated after each loss until fn has returned under a live hold.
//
// Errors: those of Do other than a loss; the cause of ctx.
func Run(
	ctx context.Context,
	acquire func(context.Context) (*zkrecipes.Hold, error),
	fn func(context.Context, *zkrecipes.Hold) error,
) error {
	if fn == nil {
		return errNoFunction
	}
	return Repeat(ctx, acquire, func(ctx context.Context, h *zkrecipes.Hold) (again bool, err error) {
		err = Under(ctx, h, fn)
		lost := h.Err()
		return errors.Is(lost, zkrecipes.ErrLost) && SaysEnded(err, lost), err
	})
}
