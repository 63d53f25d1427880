package conn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// server starts a ZooKeeper in this process, for the examples.
func server() (srv *zktest.Server, connect string, closeServer func()) {
	srv, err := zktest.Start(zktest.WithListener("127.0.0.1:0"))
	if err != nil {
		panic(err)
	}
	return srv, srv.Addr(), srv.Close
}

func ExampleDial() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	client, err := conn.Dial(ctx, connect, conn.WithSessionTimeout(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	if _, err := client.Create(ctx, "/greeting", []byte("hello"), 0); err != nil {
		fmt.Println(err)
		return
	}
	data, stat, err := client.Get(ctx, "/greeting")
	fmt.Println(string(data), stat.Version, err)
	_, _, err = client.Get(ctx, "/missing")
	fmt.Println(err)
	// Output:
	// hello 0 <nil>
	// get /missing: zk: node does not exist
}

// The service starts, and reports its health, while ZooKeeper is unavailable.
func ExampleNew() {
	srv, connect, closeServer := server()
	defer closeServer()
	srv.Refuse(zktest.Everyone)
	client, err := conn.New(connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Status().State)

	srv.Accept(zktest.Everyone)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(client.Ready(ctx), client.Status().State)
	// Output:
	// connecting
	// <nil> connected
}

func ExampleClient_States() {
	srv, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	connected := 0
	for state := range client.States(ctx) {
		fmt.Println(state)
		if state == zkrecipes.Connected {
			if connected++; connected == 2 {
				break
			}
			srv.Expire(srv.Sessions()[0].ID) // as an operator or a long outage would
		}
	}
	// Output:
	// connected
	// suspended
	// lost
	// connected
}

func ExampleClient_Watch() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for limit, err := range client.Watch(ctx, "/app/limit") {
		switch {
		case err != nil: // the final value
			fmt.Println(err)
			return
		case !limit.Current: // it may have changed since limit.AsOf; a current view follows
			continue
		case !limit.Exists:
			fmt.Println("none yet")
			if err := client.CreateAll(ctx, "/app/limit", []byte("10")); err != nil {
				fmt.Println(err)
				return
			}
		default:
			fmt.Println("limit:", string(limit.Data))
			return
		}
	}
	// Output:
	// none yet
	// limit: 10
}

func ExampleClient_DeleteAll() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for _, path := range []string{"/app/jobs/1", "/app/jobs/2", "/app/limit"} {
		if err := client.CreateAll(ctx, path, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(client.DeleteAll(ctx, "/app/jobs", conn.WithKeepTop()))
	fmt.Println(client.Children(ctx, "/app/jobs"))
	fmt.Println(client.DeleteAll(ctx, "/app"))
	fmt.Println(client.Children(ctx, "/"))
	// Output:
	// <nil>
	// [] <nil>
	// <nil>
	// [zookeeper] <nil>
}

func ExampleClient_CreateProtected() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	path, err := client.CreateProtected(ctx, "/worker-", []byte("10.0.0.1"), conn.EphemeralSequential)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, rest, _ := strings.Cut(path, "-worker-") // the part before it has a UUID
	fmt.Println("worker", rest)
	// Output:
	// worker 0000000000
}

// Nodes below /billing belong to the billing team, and all others to the operators.
func ExampleWithACLFunc() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	operators, billing := zk.DigestACL(zk.PermAll, "ops", "secret"), zk.DigestACL(zk.PermAll, "billing", "other")
	client, err := conn.Dial(ctx, connect, conn.WithAuth("digest", "ops:secret"), conn.WithACL(operators),
		conn.WithACLFunc(func(path string) []zk.ACL {
			if strings.HasPrefix(path+"/", "/billing/") {
				return slices.Concat(billing, operators)
			}
			return nil // the ACL from WithACL
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for _, path := range []string{"/billing/limit", "/limit"} {
		if err := client.CreateAll(ctx, path, nil); err != nil {
			fmt.Println(err)
			return
		}
		list, _, err := client.ACL(ctx, path)
		fmt.Println(len(list), err)
	}
	// Output:
	// 2 <nil>
	// 1 <nil>
}

func ExampleClient_CreateTTL() {
	server, err := zktest.Start(zktest.WithListener("127.0.0.1:0"), zktest.WithExtendedTypes(),
		zktest.WithContainerCheck(10*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, server.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	path, err := client.CreateTTL(ctx, "/reset-password", []byte("token"), conn.Persistent, 50*time.Millisecond)
	fmt.Println(path, err)
	for node, err := range client.Watch(ctx, path) {
		if err != nil || node.Current && !node.Exists {
			fmt.Println("it is gone", err)
			return
		}
	}
	// Output:
	// /reset-password <nil>
	// it is gone <nil>
}

// A thousand goroutines read, with at most ten requests in flight.
func ExampleWithMaxInFlight() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect, conn.WithMaxInFlight(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var read atomic.Int64
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, _, err := client.Get(ctx, "/"); err == nil {
				read.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(read.Load())
	// Output:
	// 1000
}

// Restrict a node so that only the client's team can change it, while everybody can read it.
func ExampleClient_SetACL() {
	_, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect, conn.WithAuth("digest", "team:secret"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	if err := client.CreateAll(ctx, "/limit", []byte("10")); err != nil {
		fmt.Println(err)
		return
	}
	list, stat, err := client.ACL(ctx, "/limit")
	fmt.Println(list, stat.Aversion, err)
	list = []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}
	stat, err = client.SetACL(ctx, "/limit", list, stat.Aversion) // unless another client has changed it since
	fmt.Println(stat.Aversion, err)
	// Output:
	// [{31 world anyone}] 0 <nil>
	// 1 <nil>
}

func ExampleClient_Sub() {
	srv, connect, closeServer := server()
	defer closeServer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, connect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	if _, err := client.Create(ctx, "/app", nil, 0); err != nil {
		fmt.Println(err)
		return
	}
	app, err := client.Sub("/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := app.Create(ctx, "/config", nil, 0)
	fmt.Println(path, err)
	fmt.Println(srv.Children("/app"))
	// Output:
	// /config <nil>
	// [config]
}

// The connection is encrypted, with credentials and below the application's chroot. Only the application's own user can
// access what it creates.
func ExampleDial_secured() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	authority, err := os.ReadFile("/etc/app/zookeeper-ca.pem")
	if err != nil {
		fmt.Println(err)
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	const user, password = "app", "secret"
	client, err := conn.Dial(ctx, "zk1:2281,zk2:2281,zk3:2281/app",
		conn.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
		conn.WithAuth("digest", user+":"+password),
		conn.WithACL(zk.DigestACL(zk.PermAll, user, password)),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}

// The ensemble accepts only authenticated clients, and only this client's identity can access what it creates.
func ExampleWithSASL() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	who, err := sasl.Digest("worker", os.Getenv("ZOOKEEPER_PASSWORD"))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := conn.Dial(ctx, "zk1,zk2,zk3/prod",
		conn.WithSASL(who),
		conn.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "worker"}}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}

// The client uses short-lived certificates, in files that another program replaces.
func ExampleWithTLSFunc() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := conn.Dial(ctx, "zk1:2281,zk2:2281,zk3:2281/prod", conn.WithTLSFunc(func() (*tls.Config, error) {
		authority, err := os.ReadFile("/run/certs/ca.pem")
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		own, err := tls.LoadX509KeyPair("/run/certs/tls.crt", "/run/certs/tls.key")
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, err
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}
