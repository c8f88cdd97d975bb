// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// entry builds a log line as kube-apiserver writes it.
func entry(stage, verb, agent, uri, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":%q,"requestURI":%q,"verb":%q,`+
		`"user":{"username":"admin"},"userAgent":%q,"objectRef":{"resource":"configmaps","namespace":"default","name":"a","apiVersion":"v1"},`+
		`"responseStatus":{"code":200},"stageTimestamp":"2026-01-02T03:04:05.000006Z"%s}`, stage, uri, verb, agent, more)
}

func TestReadSelectsWrites(t *testing.T) {
	t.Parallel()
	const uri = "/api/v1/namespaces/default/configmaps/a"
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	cases := map[string]struct {
		log    string
		filter Filter
		want   []string // verb and whether dry
	}{
		"a write is kept":               {log: entry("ResponseComplete", "patch", "capstan/v1", uri, "") + "\n", want: []string{"patch false"}},
		"a read is left out":            {log: entry("ResponseComplete", "get", "capstan/v1", uri, "") + "\n"},
		"a started request is left out": {log: entry("ResponseStarted", "patch", "capstan/v1", uri, "") + "\n"},
		"a dry run in the URL is left out": {
			log: entry("ResponseComplete", "patch", "capstan/v1", uri+"?dryRun=All&fieldManager=x", "") + "\n",
		},
		"a dry run in the body of a delete is left out": {
			log: entry("ResponseComplete", "delete", "capstan/v1", uri, `,"requestObject":{"dryRun":["All"]}`) + "\n",
		},
		"a dry run in the body of an eviction is left out": {
			log: entry("ResponseComplete", "create", "capstan/v1", uri, `,"requestObject":{"deleteOptions":{"dryRun":["All"]}}`) + "\n",
		},
		"dry runs are kept on request": {
			log:    entry("ResponseComplete", "update", "capstan/v1", uri+"?dryRun=All", "") + "\n",
			filter: Filter{DryRun: true}, want: []string{"update true"},
		},
		"an agent matches by prefix in any case": {
			log: entry("ResponseComplete", "patch", "capstan/v1", uri, "") + "\n" + entry("ResponseComplete", "create", "kubectl/v1", uri, "") +
				"\n" + entry("ResponseComplete", "delete", "cap", uri, "") + "\n",
			filter: Filter{Agent: "Capstan"}, want: []string{"patch false"},
		},
		"what is older than since is left out": {
			log: entry("ResponseComplete", "patch", "capstan/v1", uri, "") + "\n", filter: Filter{Since: at.Add(time.Microsecond)},
		},
		"what is exactly at since is kept": {
			log: entry("ResponseComplete", "patch", "capstan/v1", uri, "") + "\n", filter: Filter{Since: at}, want: []string{"patch false"},
		},
		"a half written last line is left out": {
			log: entry("ResponseComplete", "patch", "capstan/v1", uri, "") + "\n" + `{"kind":"Ev`, want: []string{"patch false"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			err := Read(strings.NewReader(tc.log), tc.filter, func(w Write) error {
				got = append(got, fmt.Sprintf("%s %t", w.Verb, w.DryRun))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("writes (-got +want):\n%s", diff)
			}
		})
	}
}

func TestReadRefusesABadLineThatIsNotTheLast(t *testing.T) {
	t.Parallel()
	err := Read(strings.NewReader("{\n{}\n"), Filter{}, func(Write) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("want an error that names line 1, got %v", err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := Write{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), UserAgent: "capstan/v0.1 (linux/amd64)", User: "kubernetes-admin", Verb: "patch",
		DryRun: true, Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "capi-system", Name: "m", Code: 200,
	}
	if err := Text(&b)(w); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(b.String())
	want := []string{"2026-01-02T03:04:05.006Z", "capstan/v0.1", "kubernetes-admin", "patch", "dry-run", "deployments.apps/scale", "capi-system/m", "200"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("fields (-got +want):\n%s", diff)
	}
}
