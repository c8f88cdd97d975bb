// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

func byKey(clusters []world.Cluster) map[string]*world.Cluster {
	out := make(map[string]*world.Cluster, len(clusters))
	for i := range clusters {
		out[clusters[i].Key()] = &clusters[i]
	}
	return out
}

func owners(c *world.Cluster) map[world.Ref]world.Owner {
	out := make(map[world.Ref]world.Owner, len(c.Owners))
	for _, o := range c.Owners {
		out[key(o.Ref)] = o
	}
	return out
}

// key names an owner whatever version it was read in: the preferred version may be another one once the platform has
// moved, and a process that takes over reads that one. Compared with its version, each owner would be gone and a new one
// be there, which would explain everything.
func key(r world.Ref) world.Ref {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		group = "" // "v1" has no group
	}
	r.APIVersion = group
	return r
}

// named returns the reference to an owner with its version, as it is now if it still is.
func named(r world.Ref, was, is world.Owner) world.Ref {
	for _, known := range []world.Ref{is.Ref, was.Ref} {
		if known != (world.Ref{}) {
			return known
		}
	}
	return r
}

// living counts the Machines of an owner that nobody was deleting.
func living(c *world.Cluster, owner world.Ref) int64 {
	var n int64
	for _, m := range c.Machines {
		if key(m.Owner) == owner && !m.Deleting {
			n++
		}
	}
	return n
}

func compareRefs(a, b world.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// changed lists all fields that differ and may replace Machines.
func changed(was, is world.Owner) []string { return append(fields(was, is), config(was, is)...) }

// fields lists the template fields that differ, with both values, sorted.
func fields(was, is world.Owner) []string {
	if was.Ref == (world.Ref{}) || is.Ref == (world.Ref{}) {
		return nil
	}
	var out []string
	for _, k := range keys(was.Template, is.Template) {
		if now := is.Template[k]; now != was.Template[k] {
			out = append(out, fmt.Sprintf("%s from %q to %q", k, was.Template[k], now))
		}
	}
	return out
}

// config lists the other fields that differ, sorted, without their values, which may be secret. It compares only what was
// written in between: what reads otherwise without that was converted otherwise.
func config(was, is world.Owner) []string {
	if was.Read != is.Read || was.Read == "" || was.Generation == is.Generation || was.UID != is.UID {
		return nil
	}
	var out []string
	for _, k := range keys(was.Config, is.Config) {
		before, had := was.Config[k]
		now, has := is.Config[k]
		switch {
		case !had:
			out = append(out, k+" (it was not set before)")
		case !has:
			out = append(out, k+" (it is not set any more)")
		case before != now:
			out = append(out, k)
		}
	}
	return out
}

func keys(a, b map[string]string) []string {
	out := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(out)
	return slices.Compact(out)
}

func describe(c *change, owner world.Ref, cluster string, changed []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of cluster %s", owner, cluster)
	sep := " "
	for _, part := range []struct {
		verb     string
		machines []world.Machine
	}{{"made", c.came}, {"lost", c.went}} {
		if len(part.machines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s%s Machine %s", sep, part.verb, names(part.machines))
		sep = " and "
	}
	b.WriteString(" although nobody asked for it")
	if len(changed) > 0 {
		b.WriteString(": " + phrase.Some(changed))
	}
	return b.String()
}

func names(ms []world.Machine) string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		out = append(out, m.Name)
	}
	slices.Sort(out)
	return phrase.Some(out)
}
