// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// The test binary is also PID 1 of the sandbox, the init of containers and the
// program in the images of the integration test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "netns-init":
			os.Exit(netns.Main())
		case "container-init":
			os.Exit(container.Main())
		case "app":
			os.Exit(app(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// app is what containers of the integration test run: each argument is one
// thing to do, in order.
func app(args []string) int {
	for _, arg := range args {
		verb, value, _ := strings.Cut(arg, "=")
		switch verb {
		case "print":
			fmt.Println(value)
		case "env":
			fmt.Printf("%s=%s\n", value, os.Getenv(value))
		case "cat":
			data, err := os.ReadFile(value)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			fmt.Printf("%s: %s\n", value, strings.TrimSpace(string(data)))
		case "whoami":
			wd, _ := os.Getwd()
			host, _ := os.Hostname()
			fmt.Printf("pid=%d uid=%d gid=%d wd=%s host=%s\n", os.Getpid(), os.Getuid(), os.Getgid(), wd, host)
		case "term":
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, syscall.SIGTERM)
			<-signals
			fmt.Println("terminated")
		case "sleep":
			d, err := time.ParseDuration(value)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			time.Sleep(d)
		case "serve":
			go serveApp(value)
		case "alloc":
			n, _ := strconv.Atoi(value)
			hold := make([]byte, n<<20)
			for i := 0; i < len(hold); i += 4096 {
				hold[i] = 1
			}
			fmt.Println("allocated", len(hold))
			time.Sleep(time.Hour)
		case "write":
			path, text, _ := strings.Cut(value, ":")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				fmt.Println(err)
				return 1
			}
		case "exit":
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}

// serveApp answers 200 on every path, and on /file/PATH if that file exists.
func serveApp(address string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/file/", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(strings.TrimPrefix(r.URL.Path, "/file"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Write(data)
	})
	fmt.Println(http.ListenAndServe(address, mux))
}
