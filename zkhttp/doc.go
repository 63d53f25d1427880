// Package zkhttp provides HTTP handlers for leadership and health: who leads, whether this process leads, and whether
// the client is healthy.
//
//	http.Handle("/leader", zkhttp.Leader(e))
//	http.Handle("/self", zkhttp.Self(e))
//	http.Handle("/readyz", zkhttp.Health(client))
//
// # Limits of the server
//
// Idle HTTP connections must not use up the file descriptors of a process that holds a lock, because a client that
// cannot open a connection to ZooKeeper loses its session. Since http.ListenAndServe sets no limits, use a server with
// timeouts, on an address that strangers cannot reach, and cap its connections well below the descriptor limit, for
// example with LimitListener of golang.org/x/net/netutil:
//
//	server := &http.Server{
//		Handler:           mux,
//		ReadHeaderTimeout: 5 * time.Second,
//		ReadTimeout:       10 * time.Second,
//		WriteTimeout:      10 * time.Second,
//		IdleTimeout:       15 * time.Second,
//	}
//	err := server.Serve(netutil.LimitListener(listener, 100))
//
// # Responses
//
// All responses are JSON objects and must not be cached. Times are formatted as in RFC 3339, and fields that end in
// Seconds are numbers. A response other than 200 has a field "error" that describes the problem.
//
//   - [Leader]: 200 with leader, token, path, since and asOf. 404 with asOf if there is no candidate. 503 if no server
//     answers in time, with asOf and ageSeconds of the most recent view, if there is one, but without that view's
//     leader.
//   - [Self]: 200 with token, path, since, validUntil and validForSeconds while this process leads. 503 otherwise.
//   - [Health]: 200 with state, sinceSeconds, server and, unless it is 0, roundTripSeconds. Otherwise 503 with state,
//     sinceSeconds and error, and with server while the client is connected.
//
// A 500 has only the error: the response cannot be represented in JSON, for example because of a time after the year
// 9999.
//
// The handlers serve GET and HEAD and answer other methods with 405. Their texts name servers and paths, so they are
// meant for operators and other services, not for the public.
//
// # Cost
//
// Leader takes a sync and two reads, whereas Health takes only a sync. Each waits at most half a second, or until the
// HTTP request is done if that is sooner. Concurrent requests share one query, so at most one query is in flight at a
// time, but no request is answered by a query that started before it arrived. Self sends no request to a server. The
// handlers start no goroutines and don't have to be closed.
package zkhttp
