// Package zkhttp has handlers that tell others of an election and of a client: who leads, whether this process leads, and
// whether the client works.
//
//	http.Handle("/leader", zkhttp.Leader(e))
//	http.Handle("/self", zkhttp.Self(e))
//	http.Handle("/healthz", zkhttp.Health(client))
//
// # Where to serve them
//
// In the process that holds the lock, idle HTTP connections must not use up the descriptors: a client that cannot open a
// connection to ZooKeeper loses its session. http.ListenAndServe sets no limits, so use a server with timeouts, on an address that strangers
// cannot reach, and cap the number of its connections well below the limit of descriptors, for example with LimitListener of
// golang.org/x/net/netutil:
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
// # What they answer
//
// All answers are JSON objects, and must not be cached. Times are as in RFC 3339, and fields that end in Seconds are numbers.
// An answer that is not 200 has a field "error", which says in words what is wrong.
//
//   - [Leader]: 200 with leader, token, path, since and asOf. 404 with asOf if there is no candidate. 503 if no server answers
//     in time, with asOf and ageSeconds of the newest view, if there is any. It does not name the leader of that view.
//   - [Self]: 200 with token, path, since, validUntil and validForSeconds, while this process leads. 503 otherwise.
//   - [Health]: 200 with state, server and roundTripSeconds. 503 with state, sinceSeconds and error otherwise.
//
// They serve GET and HEAD; another method gets 405. The texts name servers and paths, so the handlers are for operators and
// for other services, and not for the public.
//
// # What they cost
//
// Leader asks with a sync and two reads, Health with a sync. Each waits for half a second, or until the request ends if that
// is sooner. Requests that come together share a question, and none gets an answer to a question that was asked before it
// came. So there is at most one question at a time. Self asks no server. The handlers start no goroutines, and need no Close.
package zkhttp
