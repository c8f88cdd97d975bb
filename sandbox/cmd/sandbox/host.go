// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// hostOptions are what the commands about hosts have in common.
type hostOptions struct {
	location
	streams   streams
	namespace string
}

func newHostCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "host", Short: "Look at the sandbox's simulated hosts and change how they behave"}
	c.AddCommand(newHostList(s), newHostSet(s), newHostImages(s))
	return c
}

func (o *hostOptions) add(c *cobra.Command, namespace string) {
	o.addFlags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", namespace, "namespace of the hosts")
}

// open connects to a sandbox that has hosts.
func (o *hostOptions) open() (kube, error) {
	l, err := o.layout()
	if err != nil {
		return kube{}, err
	}
	if _, err := os.Stat(controlplane.FilesIn(l.Dir).Kubeconfig()); err != nil {
		return kube{}, o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
	}
	return newKube(l)
}

// hostState is a host as `sandbox host list` shows it.
type hostState struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Pool      string        `json:"pool"`
	State     string        `json:"state"`
	Status    string        `json:"operationalStatus"`
	PoweredOn bool          `json:"poweredOn"`
	Image     string        `json:"image"`
	Consumer  string        `json:"consumer"`
	Booked    string        `json:"booked"`
	Error     string        `json:"error"`
	Settings  host.Settings `json:"settings"`
}

func newHostList(s streams) *cobra.Command {
	o := &hostOptions{streams: s}
	output := "text"
	c := &cobra.Command{
		Use:   "list",
		Short: "List the hosts, what is on them and how they were told to behave",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := outputFormat(output); err != nil {
				return err
			}
			return o.list(c.Context(), output)
		},
	}
	o.add(c, "")
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}

func (o *hostOptions) list(ctx context.Context, output string) error {
	k, err := o.open()
	if err != nil {
		return err
	}
	hosts, err := k.dynamic.Resource(hostResource()).Namespace(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return hint(fmt.Errorf("list hosts: %w", err), "a sandbox has hosts when it was started with `sandbox up --metal`")
	}
	settings, err := k.hostSettings(ctx)
	if err != nil {
		return err
	}
	states := make([]hostState, 0, len(hosts.Items))
	for i := range hosts.Items {
		st, err := hostStateOf(&hosts.Items[i], settings)
		if err != nil {
			return err
		}
		states = append(states, st)
	}
	if output == "json" {
		return printJSON(o.streams, states)
	}
	w := tabwriter.NewWriter(o.streams.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tHOST\tPOOL\tSTATE\tPOWER\tIMAGE\tUSED BY\tBOOKED FOR\tBEHAVES\tERROR")
	for _, s := range states {
		power := "off"
		if s.PoweredOn {
			power = "on"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, s.Pool, s.State, power, s.Image, s.Consumer, s.Booked,
			behaviour(s.Settings), s.Error)
	}
	return w.Flush()
}

func hostStateOf(u *unstructured.Unstructured, settings map[string]string) (hostState, error) {
	own, err := host.ParseSettings(settings[host.SettingsKey(u.GetNamespace(), u.GetName())])
	if err != nil {
		return hostState{}, fmt.Errorf("host %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	st := hostState{
		Namespace: u.GetNamespace(), Name: u.GetName(), Pool: u.GetLabels()["sandbox.capstan.dev/pool"], State: text(u, "status", "provisioning", "state"),
		Status: text(u, "status", "operationalStatus"), Consumer: text(u, "spec", "consumerRef", "name"), Error: text(u, "status", "errorMessage"),
		Booked: u.GetLabels()["infrastructure.cluster.x-k8s.io/node-reuse"], Settings: own,
	}
	st.PoweredOn, _, _ = unstructured.NestedBool(u.Object, "status", "poweredOn")
	url := text(u, "status", "provisioning", "image", "url")
	st.Image = strings.TrimSuffix(url[strings.LastIndex(url, "/")+1:], ".qcow2")
	return st, nil
}

// behaviour says in short how a host was told to behave.
func behaviour(s host.Settings) string {
	var words []string
	if s.Slow {
		words = append(words, "slow")
	}
	for _, f := range s.Fail {
		words = append(words, "fail="+string(f))
	}
	for name, d := range map[string]*metav1.Duration{
		"register": s.Register, "inspect": s.Inspect, "provision": s.Provision, "deprovision": s.Deprovision, "clean": s.Clean, "boot": s.Boot,
	} {
		if d != nil {
			words = append(words, name+"="+d.Duration.String())
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// hostSetOptions are the options of `sandbox host set`.
type hostSetOptions struct {
	hostOptions
	times  map[string]*time.Duration
	fail   []string
	slow   bool
	paused bool
	clear  bool
	all    bool
}

func newHostSet(s streams) *cobra.Command {
	o := &hostSetOptions{hostOptions: hostOptions{streams: s}, times: map[string]*time.Duration{}}
	c := &cobra.Command{
		Use:   "set HOST... | --all",
		Short: "Change how hosts behave",
		Long: `set changes what is named and leaves the rest. --all changes the defaults, which hold for hosts that have nothing of their own.
Failures: ` + strings.Join(failureNames(), ", ") + `.`,
		Example: `  sandbox host set host-2 --provision 30s
  sandbox host set host-3 --fail checksum
  sandbox host set host-3 --fail bmc --fail power
  sandbox host set host-3 --clear
  sandbox host set --all --deprovision 5s --clean 10s
  sandbox host set host-1 --paused`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if o.all != (len(args) == 0) {
				return usagef("name hosts, or --all and none")
			}
			for _, f := range o.fail {
				if f != "" && !slices.Contains(failureNames(), f) {
					return usagef("--fail %s: there are %s", f, strings.Join(failureNames(), ", "))
				}
			}
			return o.run(c, args)
		},
	}
	o.add(c, "metal-1")
	f := c.Flags()
	for _, name := range []string{"register", "inspect", "provision", "deprovision", "clean", "boot"} {
		o.times[name] = f.Duration(name, 0, "how long it takes to "+name)
	}
	f.StringSliceVar(&o.fail, "fail", nil, "how it fails from now on; an empty value is not at all")
	f.BoolVar(&o.slow, "slow", false, "everything takes ten times as long")
	f.BoolVar(&o.paused, "paused", false, "the annotation that pauses the host; --paused=false takes it away")
	f.BoolVar(&o.clear, "clear", false, "forget everything that was set before")
	f.BoolVar(&o.all, "all", false, "change the defaults")
	return c
}

func failureNames() []string {
	var names []string
	for _, f := range host.Failures() {
		names = append(names, string(f))
	}
	return names
}

func (o *hostSetOptions) run(c *cobra.Command, names []string) error {
	ctx := c.Context()
	k, err := o.open()
	if err != nil {
		return err
	}
	settings, err := k.hostSettings(ctx)
	if err != nil {
		return err
	}
	keys := []string{host.DefaultKey}
	if !o.all {
		keys = nil
	}
	for _, name := range names {
		if _, err := k.dynamic.Resource(hostResource()).Namespace(o.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return hint(fmt.Errorf("get host %s/%s: %w", o.namespace, name, err), "run `sandbox host list%s` to see which there are", o.flags())
		}
		keys = append(keys, host.SettingsKey(o.namespace, name))
		if c.Flags().Changed("paused") {
			if err := k.pauseHost(ctx, o.namespace, name, o.paused); err != nil {
				return err
			}
		}
	}
	data := map[string]string{}
	for _, key := range keys {
		next, err := o.change(c, settings[key])
		if err != nil {
			return err
		}
		data[key] = next
	}
	if err := k.writeHostSettings(ctx, data); err != nil {
		return err
	}
	fmt.Fprintln(o.streams.errOut, "Changed")
	return nil
}

// change applies the flags that were given to settings.
func (o *hostSetOptions) change(c *cobra.Command, before string) (string, error) {
	s, err := host.ParseSettings(before)
	if err != nil {
		return "", fmt.Errorf("read what was set before: %w", err)
	}
	if o.clear {
		s = host.Settings{}
	}
	given := c.Flags().Changed
	for name, to := range map[string]**metav1.Duration{
		"register": &s.Register, "inspect": &s.Inspect, "provision": &s.Provision, "deprovision": &s.Deprovision, "clean": &s.Clean, "boot": &s.Boot,
	} {
		if given(name) {
			*to = &metav1.Duration{Duration: *o.times[name]}
		}
	}
	if given("slow") {
		s.Slow = o.slow
	}
	if given("fail") {
		s.Fail = nil
		for _, f := range o.fail {
			if f != "" {
				s.Fail = append(s.Fail, host.Failure(f))
			}
		}
	}
	out, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode settings: %w", err)
	}
	return string(out), nil
}

func (k kube) hostSettings(ctx context.Context) (map[string]string, error) {
	cm, err := k.typed.CoreV1().ConfigMaps(host.ConfigNamespace).Get(ctx, host.SettingsConfig, metav1.GetOptions{})
	if err != nil {
		return nil, hint(fmt.Errorf("read how hosts behave: %w", err), "a sandbox has hosts when it was started with `sandbox up --metal`")
	}
	return cm.Data, nil
}

func (k kube) writeHostSettings(ctx context.Context, data map[string]string) error {
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	_, err = k.typed.CoreV1().ConfigMaps(host.ConfigNamespace).Patch(ctx, host.SettingsConfig, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("write how hosts behave: %w", err)
	}
	return nil
}

func (k kube) pauseHost(ctx context.Context, namespace, name string, paused bool) error {
	var value any
	if paused {
		value = ""
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{host.PausedAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("encode annotation: %w", err)
	}
	_, err = k.dynamic.Resource(hostResource()).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("pause host %s/%s: %w", namespace, name, err)
	}
	return nil
}
