// A client for `cargo xtask conformance tls`: full and resumed sessions of both versions, and the
// errors of certificates that do not fit. Prints a line for each case. The arguments are the
// address and the certificate of the authority.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	address, authority := os.Args[1], os.Args[2]
	text, err := os.ReadFile(authority)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{
			RootCAs:            roots,
			ServerName:         "site.test",
			MinVersion:         version,
			MaxVersion:         version,
			ClientSessionCache: tls.NewLRUClientSessionCache(4),
		}
		for range [2]int{} {
			get(address, config)
		}
	}
	for _, name := range []string{"rsa", "p256", "p384", "p521", "ed25519", "expired", "other"} {
		get(address, &tls.Config{RootCAs: roots, ServerName: name + ".test"})
	}
	get(address, &tls.Config{RootCAs: roots, ServerName: "site.test", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
}

// One request over a connection of its own.
func get(address string, config *tls.Config) {
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	response, err := client.Get("https://" + address + "/")
	if err != nil {
		fmt.Println(config.ServerName, err)
		return
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	state := response.TLS
	fmt.Printf("%s %x %v %d %d %v\n", config.ServerName, state.Version, state.DidResume, response.StatusCode, len(content), err)
}
