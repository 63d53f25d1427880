package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// outputFlags select what to print, and in which format.
type outputFlags struct {
	format, log    string
	quiet, verbose bool
	own            statusMap
	service        bool // the verb is long-running, so its messages go to a log
}

func (o *outputFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&o.format, "output", "o", "table", "`format` of results on standard output: table, json or value")
	flags.StringVar(&o.log, "log", "auto",
		"`format` of messages on standard error: text, json, or auto (text, but plain sentences in a terminal)")
	flags.Var(&o.own, "own-status", "map exit `statuses` of zkr itself to others, such as 64=193,79=194")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print only errors, such as the last message of a failure")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print more messages: every step, and the state of the connection")
}

// level returns the minimum level of messages. The log of a service records every change. Without a terminal, other
// verbs only warn, because cron mails every message.
func (o *outputFlags) level(terminal bool) slog.Level {
	switch {
	case o.verbose:
		return slog.LevelDebug
	case o.quiet:
		return slog.LevelError
	case terminal, o.service:
		return slog.LevelInfo
	default:
		return slog.LevelWarn
	}
}

// libraryLevel returns the minimum level for messages of the connection.
func (o *outputFlags) libraryLevel() slog.Level {
	switch {
	case o.verbose:
		return slog.LevelDebug
	case o.service:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// forOperators converts times to UTC and replaces names of options in errors by names of flags.
func forOperators(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case time.Time:
		a.Value = slog.TimeValue(value.UTC())
	case error:
		a.Value = slog.StringValue(exit.AsFlags.Replace(value.Error()))
	case string:
		a.Value = slog.StringValue(exit.AsFlags.Replace(value))
	}
	return a
}

func (o *outputFlags) logger(file *os.File) (*slog.Logger, error) {
	switch o.format {
	case "table", "json", "value":
	default:
		return nil, exit.Usagef("--output %s: want table, json or value", o.format)
	}
	terminal := term.IsTerminal(int(file.Fd()))
	options := &slog.HandlerOptions{Level: o.level(terminal), ReplaceAttr: forOperators}
	switch {
	case o.log == "json":
		return slog.New(slog.NewJSONHandler(file, options)), nil
	case o.log == "auto" && terminal:
		return slog.New(&sentences{out: file, level: options.Level.Level(), mu: &sync.Mutex{}}), nil
	case o.log == "text", o.log == "auto":
		return slog.New(slog.NewTextHandler(file, options)), nil
	}
	return nil, exit.Usagef("--log %s: want text, json or auto", o.log)
}

// sentences is a handler that prints messages for people in a terminal.
type sentences struct {
	out   io.Writer
	level slog.Level
	mu    *sync.Mutex
	attrs []slog.Attr
}

func (s *sentences) Enabled(_ context.Context, level slog.Level) bool { return level >= s.level }

// Handle prints the message, followed by its attributes unless it is an event. The sentence of an event already
// contains them, except for the reason.
func (s *sentences) Handle(_ context.Context, r slog.Record) error {
	line := "zkr: " + r.Message
	var pairs []string
	event, reason, cause := false, "", ""
	add := func(a slog.Attr) bool {
		event = event || a.Key == supervise.EventKey
		switch a.Key {
		case supervise.ReasonKey:
			reason = ": " + a.Value.String()
		case supervise.ErrorKey:
			cause = ": " + a.Value.String()
		}
		pairs = append(pairs, a.String())
		return true
	}
	for _, a := range s.attrs {
		add(a)
	}
	r.Attrs(add)
	if event {
		line += reason + cause
	} else if len(pairs) > 0 {
		line += " (" + strings.Join(pairs, ", ") + ")"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := fmt.Fprintf(s.out, "%s\n", plainLines(exit.AsFlags.Replace(line)))
	return err
}

func (s *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *s
	with.attrs = append(append([]slog.Attr{}, s.attrs...), attrs...)
	return &with
}

func (s *sentences) WithGroup(string) slog.Handler { return s }

// louder passes on records of at least the given level.
type louder struct {
	slog.Handler
	least slog.Leveler
}

func (l *louder) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= l.least.Level() && l.Handler.Enabled(ctx, level)
}

// table is a result: the value for -o json, and rows for people. -o value prints the first column of each row, or the
// first values columns.
type table struct {
	values int      // number of columns that -o value prints, separated by tabs; 0 means one
	header []string // empty if the rows are self-explanatory
	rows   [][]string
	json   any
}

// print prints a result to standard output in the format of --output.
func (a *app) print(t table) error {
	switch a.output.format {
	case "json":
		text, err := survey.JSON(t.json)
		if err == nil {
			_, err = fmt.Fprintf(a.out, "%s\n", text)
		}
		return err
	case "value":
		for _, row := range t.rows {
			cells := plainCells(row[:max(t.values, 1)])
			if _, err := fmt.Fprintln(a.out, strings.Join(cells, "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if len(t.header) > 0 {
		_, _ = fmt.Fprintln(columns, strings.Join(t.header, "\t")) // Flush returns the error
	}
	for _, row := range t.rows {
		_, _ = fmt.Fprintln(columns, strings.Join(plainCells(row), "\t"))
	}
	return columns.Flush()
}

func plainCells(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = survey.Plain(cell)
	}
	return cells
}

// plainLines makes each line of a text plain.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = survey.Plain(line)
	}
	return strings.Join(lines, "\n")
}

func isTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// silent is for connections whose failures are reported as results.
var silent = slog.New(slog.DiscardHandler)
