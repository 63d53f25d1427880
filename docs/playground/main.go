//go:build !js

// Command playground is the program in the page of docs/playground: real recipes against a ZooKeeper inside the page.
// On systems other than js it serves the page that build.sh has assembled.
//
//	go run ./docs/playground bin/playground
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "where to serve")
	flag.Parse()
	if err := serve(*address, flag.Arg(0)); err != nil {
		log.Fatal("playground: ", err)
	}
}

// serve serves the files of a directory.
func serve(address, directory string) error {
	if _, err := os.Stat(directory + "/index.html"); err != nil {
		return fmt.Errorf("no page to serve: make playground builds one: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%v/\n", listener.Addr())
	server := &http.Server{Handler: http.FileServer(http.Dir(directory)), ReadHeaderTimeout: 5 * time.Second}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
