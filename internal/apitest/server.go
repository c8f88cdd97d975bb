// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Options say what there is beside an API server.
type Options struct {
	// Audit keeps a log of every write, for Server.Writes.
	Audit bool
	// ControllerManager starts kube-controller-manager: garbage collection, namespaces that end, aggregated roles.
	ControllerManager bool
}

// Server is an API server of a test.
type Server struct {
	// Config reaches it as a cluster administrator.
	Config *rest.Config
	// Kubeconfig is a file that does.
	Kubeconfig string

	audit string
}

// auditPolicy logs what is written, with the bodies of deletions, in which a dry run may be asked for.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [delete, deletecollection]}
- {level: Metadata}
`

// Boot starts etcd and kube-apiserver, and what Options ask for. They end with the test.
func Boot(t *testing.T, o Options) *Server {
	t.Helper()
	if os.Getenv(Assets) == "" {
		t.Skipf("skipped: needs a real API server; set %s to a directory with etcd and kube-apiserver (make test does)", Assets)
	}
	dir := t.TempDir()
	s := &Server{Kubeconfig: filepath.Join(dir, "kubeconfig"), audit: filepath.Join(dir, "audit.log")}
	env := &envtest.Environment{}
	if o.Audit {
		policy := filepath.Join(dir, "audit-policy.yaml")
		write(t, policy, []byte(auditPolicy))
		env.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", s.audit).Set("audit-log-mode", "blocking")
	}
	var err error
	if s.Config, err = env.Start(); err != nil {
		t.Fatalf("start API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop API server: %v", err)
		}
	})
	s.Config.QPS, s.Config.Burst = -1, -1
	write(t, s.Kubeconfig, env.KubeConfig)
	if o.ControllerManager {
		s.manage(t, dir)
	}
	return s
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
}

// manage runs kube-controller-manager until the test ends.
func (s *Server) manage(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // it has to outlive the test's own context, until its cleanup
	var log bytes.Buffer
	//nolint:gosec // the programs under test
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv(Assets), "kube-controller-manager"),
		"--kubeconfig="+s.Kubeconfig, "--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
		"--cert-dir="+dir, "--controllers=garbagecollector,namespace-controller,clusterrole-aggregation-controller,serviceaccount-controller")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start kube-controller-manager: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-done:
			t.Errorf("kube-controller-manager ended early: %v\n%s", err, log.String())
		default:
			cancel()
			if err := <-done; err == nil {
				t.Error("kube-controller-manager ended by itself")
			}
		}
		cancel()
	})
}

// Write is one request that changed something, or was refused when it tried to.
type Write struct {
	// Agent is the user agent.
	Agent string
	// Verb is create, update, patch, delete or deletecollection.
	Verb string
	// Object is resource.group/subresource namespace/name.
	Object string
	// Code is the answer's HTTP status.
	Code int
	// At is when it was answered.
	At time.Time
}

// String is the write on one line.
func (w Write) String() string {
	return fmt.Sprintf("%s %s: %d (%s)", w.Verb, w.Object, w.Code, w.Agent)
}

// event is the part of an audit event that is of interest.
type event struct {
	Stage, RequestURI, Verb, UserAgent string
	StageTimestamp                     time.Time
	ObjectRef                          struct{ Resource, Namespace, Name, APIGroup, Subresource string }
	ResponseStatus                     struct{ Code int }
	RequestObject                      struct{ DryRun []string }
}

// Request is one request of any kind.
type Request struct {
	// Verb is Kubernetes's verb, Path the path and query.
	Verb, Path string
	// Code is the answer's HTTP status.
	Code int
}

// Requests returns all requests of those whose user agent begins with agent, in order.
func (s *Server) Requests(t *testing.T, agent string) []Request {
	t.Helper()
	var out []Request
	s.read(t, agent, func(e event) {
		out = append(out, Request{Verb: e.Verb, Path: e.RequestURI, Code: e.ResponseStatus.Code})
	})
	return out
}

// Writes returns the writes of those whose user agent begins with agent, in order. Dry runs and reviews change nothing
// and are left out.
func (s *Server) Writes(t *testing.T, agent string) []Write {
	t.Helper()
	var out []Write
	s.read(t, agent, func(e event) {
		if e.writes() {
			out = append(out, Write{Agent: e.UserAgent, Verb: e.Verb, Object: e.object(), Code: e.ResponseStatus.Code, At: e.StageTimestamp})
		}
	})
	return out
}

// read shows the answered requests of an agent.
func (s *Server) read(t *testing.T, agent string, see func(event)) {
	t.Helper()
	f, err := os.Open(s.audit)
	if err != nil {
		t.Fatalf("open audit log: %v", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("decode audit log: %v", err)
		}
		if strings.HasPrefix(e.UserAgent, agent) {
			see(e)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatalf("read audit log: %v", err)
	}
}

func (e event) writes() bool {
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) {
		return false
	}
	if strings.HasSuffix(e.ObjectRef.Resource, "reviews") { // SubjectAccessReview and its kin are questions
		return false
	}
	u, err := url.Parse(e.RequestURI)
	return err == nil && !slices.Contains(append(u.Query()["dryRun"], e.RequestObject.DryRun...), "All")
}

func (e event) object() string {
	out := e.ObjectRef.Resource
	if e.ObjectRef.APIGroup != "" {
		out += "." + e.ObjectRef.APIGroup
	}
	if e.ObjectRef.Subresource != "" {
		out += "/" + e.ObjectRef.Subresource
	}
	out += " "
	if e.ObjectRef.Namespace != "" {
		out += e.ObjectRef.Namespace + "/"
	}
	return out + e.ObjectRef.Name
}
