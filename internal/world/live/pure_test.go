// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/world"
)

// parse reads one object.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return u
}

func TestDrift(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b%s}\n"
	plain := strings.ReplaceAll(head, "%s", "")
	tests := map[string]struct{ live, applied, want string }{
		"what the API server keeps for itself is no drift": {
			live:    strings.ReplaceAll(head, "%s", ", resourceVersion: '1', generation: 1, uid: x") + "status: {a: 1}\n",
			applied: strings.ReplaceAll(head, "%s", ", resourceVersion: '2', generation: 2, uid: x") + "status: {a: 2}\n",
		},
		"changed, added and removed fields are named with their values": {
			live:    plain + "data: {a: '1', b: '2'}\n",
			applied: plain + "data: {a: '3', c: '4'}\n",
			want:    `data.a: "1" to "3"; data.b: remove "2"; data.c: add "4"`,
		},
		"list items are told apart by name": {
			live:    plain + "spec: {containers: [{name: x, image: old}, {name: w, image: same}]}\n",
			applied: plain + "spec: {containers: [{name: x, image: new}, {name: w, image: same}, {name: z}]}\n",
			want:    `spec.containers[x].image: "old" to "new"; spec.containers[z]: add {"name":"z"}`,
		},
		"another order is a drift": {
			live:    plain + "spec: [{name: x}, {name: w}]\n",
			applied: plain + "spec: [{name: w}, {name: x}]\n",
			want:    "spec: another order",
		},
		"lists without names are compared by place": {
			live:    plain + "args: [a, b]\n",
			applied: plain + "args: [a, c, d]\n",
			want:    `args[1]: "b" to "c"; args[2]: add "d"`,
		},
		"many differences are counted": {
			live:    plain + "data: {a: '1', b: '1', c: '1', d: '1', e: '1'}\n",
			applied: plain + "data: {a: '2', b: '2', c: '2', d: '2', e: '2'}\n",
			want:    `data.a: "1" to "2"; data.b: "1" to "2"; data.c: "1" to "2"; and 2 more`,
		},
		"keys with dots stay readable": {
			live:    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a.b/c: one}}\n",
			applied: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a.b/c: two}}\n",
			want:    `metadata.labels[a.b/c]: "one" to "two"`,
		},
		"a Secret's values are not shown": {
			live:    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {key: b2xk}\n",
			applied: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {key: bmV3}\n",
			want:    "data.key differs",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(drift(parse(t, test.live), parse(t, test.applied)), test.want); diff != "" {
				t.Errorf("drift() (-got +want):\n%s", diff)
			}
		})
	}
}

func TestLeftOverNamesInstallersThatUpdatedAndNobodyElse(t *testing.T) {
	t.Parallel()
	got := leftOver([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: "clusterctl", Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: "clusterctl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1beta1"},
		{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
		{Manager: "cainjector", Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: "capstan", Operation: metav1.ManagedFieldsOperationApply},
	})
	if diff := cmp.Diff(got, []string{"clusterctl", "kubectl-client-side-apply"}); diff != "" {
		t.Errorf("leftOver() (-got +want):\n%s", diff)
	}
}

func TestContentKeyOutlivesAChangeOfStatusOnly(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b, uid: u, generation: 3, resourceVersion: '1'}\nstatus: {replicas: 1}\n"
	key := func(change func(*unstructured.Unstructured)) string {
		u := parse(t, text)
		change(u)
		k, err := contentKey(u)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := key(func(*unstructured.Unstructured) {})
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		same   bool
	}{
		"status": {same: true, change: func(u *unstructured.Unstructured) {
			u.SetResourceVersion("2")
			u.Object["status"] = map[string]any{"replicas": int64(2)}
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kcm", Operation: "Update", Subresource: "status"}})
		}},
		"spec":   {change: func(u *unstructured.Unstructured) { u.SetGeneration(4) }},
		"labels": {change: func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }},
		"owner of fields": {change: func(u *unstructured.Unstructured) {
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "clusterctl", Operation: "Update"}})
		}},
		"another object of the name": {change: func(u *unstructured.Unstructured) { u.SetUID("v") }},
		"no generation": {change: func(u *unstructured.Unstructured) {
			u.SetGeneration(0)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := key(test.change) == base; got != test.same {
				t.Errorf("key is the same: %t, want %t", got, test.same)
			}
		})
	}
}

func TestManifestsOfCountsAComponentOnceAtItsLowestVersion(t *testing.T) {
	t.Parallel()
	recorded := func(name, version string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{componentLabel: name}, Annotations: map[string]string{versionAnnotation: version},
		}}
	}
	certManager := func(annotations map[string]string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{clusterctlCoreLabel: "cert-manager"}, Annotations: annotations,
		}}
	}
	tests := map[string]struct {
		objects []metav1.PartialObjectMetadata
		want    []world.Manifest
	}{
		"nothing is recorded": {},
		"half of it is at the next version": {
			objects: []metav1.PartialObjectMetadata{recorded("b", "v1.10.0"), recorded("b", "v1.9.0"), recorded("a", "v2.0.0")},
			want:    []world.Manifest{{Name: "a", Version: "v2.0.0", RecordedBy: "capstan"}, {Name: "b", Version: "v1.9.0", RecordedBy: "capstan"}},
		},
		"a label without a version is no record": {
			objects: []metav1.PartialObjectMetadata{recorded("b", "")},
		},
		"clusterctl's cert-manager": {
			objects: []metav1.PartialObjectMetadata{certManager(map[string]string{clusterctlCertManagerVersion: "v1.20.0"})},
			want:    []world.Manifest{{Name: "cert-manager", Version: "v1.20.0", RecordedBy: "clusterctl"}},
		},
		"clusterctl's first cert-manager had no version": {
			objects: []metav1.PartialObjectMetadata{certManager(nil)},
			want:    []world.Manifest{{Name: "cert-manager", Version: "v0.11.0", RecordedBy: "clusterctl"}},
		},
		"Capstan has taken over a part of it": {
			objects: []metav1.PartialObjectMetadata{recorded("cert-manager", "v1.21.0"), certManager(map[string]string{clusterctlCertManagerVersion: "v1.20.0"})},
			want:    []world.Manifest{{Name: "cert-manager", Version: "v1.20.0", RecordedBy: "clusterctl"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(manifestsOf(test.objects), test.want); diff != "" {
				t.Errorf("manifestsOf() (-got +want):\n%s", diff)
			}
		})
	}
}

func TestPagedStartsOverWhenTheSnapshotExpired(t *testing.T) {
	t.Parallel()
	expired := true
	got, err := paged(metav1.ListOptions{}, func(o metav1.ListOptions) ([]string, string, error) {
		switch o.Continue {
		case "":
			return []string{"a"}, "second", nil
		case "second":
			if expired {
				expired = false
				return nil, "", apierrors.NewResourceExpired("too old")
			}
			return []string{"b"}, "", nil
		}
		return nil, "", errors.New("unknown page")
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, []string{"a", "b"}); diff != "" {
		t.Errorf("paged() (-got +want):\n%s", diff)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "x.io", Kind: "Thing"}
	invalid := apierrors.NewInvalid(gk, "a", field.ErrorList{field.Required(field.NewPath("spec", "size"), "")})
	silentAbout := func(name string) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "` + name + `": connection refused`))
	}
	denied := apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New(`admission webhook "this" denied the request: no`))
	tests := map[string]struct {
		err      error
		created  bool
		mutating bool
		want     verdict
	}{
		"taken":             {want: answered},
		"not called":        {err: silentAbout("this"), want: silent},
		"no answer in time": {err: errNoAnswer, want: silent},
		"another webhook is away, so this one may not be reached": {err: silentAbout("other"), want: unclear},
		"refused by itself": {err: denied, want: answered},
		"a fault in a new object comes after mutating webhooks": {err: invalid, created: true, mutating: true, want: answered},
		"a fault in a new object comes before validating ones":  {err: invalid, created: true, want: unclear},
		"no right to ask": {err: apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "a", errors.New("no")), mutating: true, want: unclear},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hook{name: "this", admission: &admissionHook{mutating: test.mutating}}
			if got := judge(h, test.err, test.created); got.verdict != test.want {
				t.Errorf("judge() = %+v, want %s", got, test.want)
			}
		})
	}
}

func TestJudgeService(t *testing.T) {
	t.Parallel()
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
	}
	tests := map[string]struct {
		status int
		err    error
		want   callResult
	}{
		"a good answer":                        {status: http.StatusOK, want: callResult{verdict: answered}},
		"its own refusal of an empty request":  {status: http.StatusBadRequest, err: status(400, "request body is empty"), want: callResult{verdict: answered}},
		"a path that its server does not know": {status: http.StatusNotFound, err: status(404, "404 page not found"), want: callResult{verdict: silent, words: "its server does not know the path /convert: 404 page not found"}},
		"nothing behind the service":           {status: http.StatusServiceUnavailable, err: status(503, "no endpoints available for service"), want: callResult{verdict: silent, words: "no endpoints available for service"}},
		"no API server":                        {err: errors.New("connection refused"), want: callResult{verdict: silent, words: "connection refused"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(judgeService("/convert", test.status, test.err), test.want, cmp.AllowUnexported(callResult{})); diff != "" {
				t.Errorf("judgeService() (-got +want):\n%s", diff)
			}
		})
	}
}

func TestProbeCount(t *testing.T) {
	t.Parallel()
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return zero.Add(time.Duration(n) * time.Second) }
	away := errors.New("refused")
	gap := func(from, to int) world.Gap { return world.Gap{From: second(from), To: second(to), Error: "refused"} }
	tests := map[string]struct {
		calls []error
		now   int
		want  world.Probe
	}{
		"all answered": {calls: []error{nil, nil, nil}, now: 3, want: world.Probe{Cluster: "a/b", Total: 3}},
		"a gap lasts from the last answer before to the first after": {
			calls: []error{nil, nil, away, away, nil}, now: 5,
			want: world.Probe{Cluster: "a/b", Total: 5, Failed: 2, LongestGap: 3 * time.Second, LastError: "refused", Gaps: []world.Gap{gap(1, 4)}},
		},
		"a gap that goes on ends now": {
			calls: []error{nil, away}, now: 9,
			want: world.Probe{Cluster: "a/b", Total: 2, Failed: 1, LongestGap: 9 * time.Second, LastError: "refused", Gaps: []world.Gap{gap(0, 9)}},
		},
		"a cluster that never answered is a gap from the first call": {
			calls: []error{away, away}, now: 2,
			want: world.Probe{Cluster: "a/b", Total: 2, Failed: 2, LongestGap: 2 * time.Second, LastError: "refused", Gaps: []world.Gap{gap(0, 2)}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c probeCount
			for i, err := range test.calls {
				c.add(second(i), second(i), err)
			}
			if diff := cmp.Diff(c.probe("a/b", second(test.now)), test.want); diff != "" {
				t.Errorf("probe() (-got +want):\n%s", diff)
			}
		})
	}
	t.Run("gaps are bounded, the longest is kept", func(t *testing.T) {
		t.Parallel()
		var c probeCount
		c.add(second(0), second(0), nil)
		c.add(second(1), second(1), away)
		c.add(second(100), second(100), nil)
		for i := range 50 {
			c.add(second(101+2*i), second(101+2*i), away)
			c.add(second(102+2*i), second(102+2*i), nil)
		}
		got := c.probe("a/b", second(300))
		if len(got.Gaps) != maxGaps || got.LongestGap != 100*time.Second || got.Failed != 51 {
			t.Errorf("got %d gaps, longest %s, %d failed; want %d, 100s, 51", len(got.Gaps), got.LongestGap, got.Failed, maxGaps)
		}
	})
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443", certificate-authority: /etc/passwd%s}}]
users: [{name: u, user: {client-certificate: /etc/passwd, client-key: /etc/shadow, tokenFile: /etc/passwd, exec: {apiVersion: client.authentication.k8s.io/v1, command: reboot, interactiveMode: Never}}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestWorkloadConfigRunsNothingAndReadsNoFile(t *testing.T) {
	t.Parallel()
	cfg, err := workloadConfig([]byte(strings.ReplaceAll(kubeconfig, "%s", "")), nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := []bool{cfg.ExecProvider == nil, cfg.AuthProvider == nil, cfg.BearerTokenFile == "", cfg.BearerToken == "", cfg.CAFile == "", cfg.CertFile == "", cfg.KeyFile == ""}
	if diff := cmp.Diff(got, []bool{true, true, true, true, true, true, true}); diff != "" {
		t.Errorf("workloadConfig() (-got +want):\n%s", diff)
	}
}

func TestWorkloadConfigTakesTheManagementClustersProxyUnlessItNamesOne(t *testing.T) {
	t.Parallel()
	management := func(*http.Request) (*url.URL, error) { return url.Parse("http://management:1") }
	tests := map[string]struct{ own, want string }{
		"it names none": {want: "http://management:1"},
		"it names one":  {own: `, proxy-url: "http://own:2"`, want: "http://own:2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := workloadConfig([]byte(strings.ReplaceAll(kubeconfig, "%s", test.own)), management, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			got, err := cfg.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "10.0.0.1:6443"}})
			if err != nil || got.String() != test.want {
				t.Errorf("proxy is %v (%v), want %s", got, err, test.want)
			}
		})
	}
}

func TestWorkloadConfigDoesNotQuoteABrokenKubeconfig(t *testing.T) {
	t.Parallel()
	_, err := workloadConfig([]byte("token: very-secret: x"), nil, time.Second)
	if err == nil || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("error is %v, want one without the content", err)
	}
}
