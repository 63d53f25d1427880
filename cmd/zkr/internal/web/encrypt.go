package web

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// Certificates are PEM files. They are read again for each connection, since certificates may be valid for mere hours.
type Certificates struct {
	Cert, Key string
	ClientCA  string // authority of admitted clients; if empty, all are admitted
}

// Encrypt makes listeners on TCP ports serve TLS.
func (s *Site) Encrypt(files Certificates) error {
	e := &encryption{files: files, log: s.log}
	if err := e.read(); err != nil {
		return err
	}
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: e.next}
	return nil
}

type encryption struct {
	files Certificates
	log   *slog.Logger

	mu   sync.Mutex
	last *tls.Config // the last one read without an error
}

// next returns the current contents of the files. If they cannot be read, as between the writes of two of them, it
// returns the previous ones.
func (e *encryption) next(*tls.ClientHelloInfo) (*tls.Config, error) {
	if err := e.read(); err != nil {
		e.log.Warn("cannot read the certificate of --http-cert, keeping the previous one", "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last, nil
}

func (e *encryption) read() error {
	for _, file := range []string{e.files.Cert, e.files.Key, e.files.ClientCA} {
		if err := checkRegular(file); err != nil {
			return err
		}
	}
	pair, err := tls.LoadX509KeyPair(e.files.Cert, e.files.Key)
	if err != nil {
		return fmt.Errorf("--http-cert and --http-key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if e.files.ClientCA != "" {
		pem, err := os.ReadFile(e.files.ClientCA)
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if err == nil && !config.ClientCAs.AppendCertsFromPEM(pem) {
			err = errors.New("it contains no PEM certificate")
		}
		if err != nil {
			return fmt.Errorf("--http-client-ca %s: %w", e.files.ClientCA, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = config
	return nil
}
