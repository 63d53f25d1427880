package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

func newInstances(a *app) *cobra.Command {
	var watch bool
	var f discoveryFlags
	cmd := &cobra.Command{
		Annotations: map[string]string{looks: ""},
		Use:         "instances [flags] [SERVICE]",
		Short:       "List the instances of a service, or the services",
		Example: `  zkr instances orders
  zkr instances -o value orders
  zkr instances --watch -o json orders | jq -r '.instances[].address'
  zkr instances`,
		Long: `instances lists the instances of SERVICE, oldest first, or without SERVICE the names of the services.
The state of an instance is up, disabled, or error if its node cannot be decoded. -o value prints
host:port of the instances that are up, one per line.

With --watch it prints every change until it is stopped: with -o json one line each, otherwise the
whole list again, followed by an empty line. While the connection is lost, the last list stays, since
most instances still exist: -o json then reports that the list is not current, and when it last was.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("want one SERVICE, got %q", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			codec, err := f.check()
			if err != nil {
				return err
			}
			for _, service := range args {
				if _, err := codec.Folder(service); err != nil {
					return exit.With(exit.Usage, err)
				}
			}
			if watch && len(args) == 0 {
				return exit.Usagef("--watch: want a SERVICE")
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				d, err := f.open(client)
				switch {
				case err != nil:
					return err
				case len(args) == 0:
					return a.printServices(ctx, d)
				case watch:
					return a.followInstances(ctx, d, args[0])
				}
				view, err := d.Instances(ctx, args[0])
				if err != nil {
					return err
				}
				if len(view.Entries) == 0 {
					a.log.Info("the service has no instances", "service", args[0])
				}
				return a.printInstances(view, nil)
			})
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running and print every change")
	return cmd
}

func (a *app) printServices(ctx context.Context, d *discovery.Discovery) error {
	names, err := d.Names(ctx)
	if err != nil {
		return err
	}
	t := table{json: map[string]any{"services": names}}
	for _, name := range names {
		t.rows = append(t.rows, []string{name})
	}
	return a.print(t)
}

func (a *app) followInstances(ctx context.Context, d *discovery.Discovery, service string) error {
	for view, err := range d.Watch(ctx, service) {
		switch {
		case err != nil:
			return err
		case !view.Current && a.output.format != "json":
			a.log.Warn("the list may be stale", "as_of", view.AsOf)
			continue
		}
		if err := a.printInstances(view, &view.Current); err != nil {
			return err
		}
		if a.output.format != "json" {
			if _, err := fmt.Fprintln(a.out); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// instance is the JSON form of an entry.
type instance struct {
	ID       string            `json:"id"`
	Address  string            `json:"address"`
	Port     int               `json:"port,omitempty"`
	TLSPort  int               `json:"tls_port,omitempty"`
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Payload  json.RawMessage   `json:"payload,omitempty"`
	URI      string            `json:"uri,omitempty"`
	Since    time.Time         `json:"since"`
	Session  string            `json:"session,omitempty"`
	Node     string            `json:"node"`
	Error    string            `json:"error,omitempty"`
}

// printInstances prints a list of instances, and as JSON also whether it is current, unless current is nil.
func (a *app) printInstances(view discovery.View, current *bool) error {
	list := make([]instance, 0, len(view.Entries))
	t := table{header: []string{"ADDRESS", "STATE", "ID", "SINCE"}}
	for _, e := range view.Entries {
		i := instance{
			ID: e.ID, Address: e.Address, Port: e.Port, TLSPort: e.TLSPort, State: "up", Metadata: e.Metadata,
			Payload: e.Payload, URI: e.URL(),
			Since: e.Since.UTC(), Node: e.Path,
		}
		if e.Session != 0 {
			i.Session = fmt.Sprintf("0x%x", uint64(e.Session))
		}
		where, what := e.HostPort(), e.ID
		switch {
		case e.Err != nil:
			i.State, i.Error = "error", e.Err.Error()
			where, what = "-", i.Error
		case e.Disabled:
			i.State = "disabled"
		}
		list = append(list, i)
		if a.output.format != "value" || i.State == "up" {
			t.rows = append(t.rows, []string{where, i.State, what, i.Since.Format(time.RFC3339)})
		}
	}
	answer := map[string]any{
		"service": view.Service, "instances": list, "as_of": view.AsOf.UTC().Format(time.RFC3339Nano), "zxid": view.Zxid,
	}
	if current != nil {
		answer["current"] = *current
	}
	t.json = answer
	return a.print(t)
}
