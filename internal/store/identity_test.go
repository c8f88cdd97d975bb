// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseIdentity(t *testing.T) {
	t.Parallel()
	full := Identity{User: "ada", Host: "box", PID: 7, Namespace: "4026531836", Boot: "1b2c", Start: 99}
	for name, tc := range map[string]struct {
		text   string
		want   Identity
		wantOK bool
	}{
		"all facts":                       {text: "ada@box pid=7 pidns=4026531836 boot=1b2c start=99", want: full, wantOK: true},
		"facts in another order":          {text: "ada@box start=99 boot=1b2c pid=7 pidns=4026531836", want: full, wantOK: true},
		"a fact that a later version has": {text: "ada@box pid=7 pidns=4026531836 boot=1b2c start=99 new=1", want: full, wantOK: true},
		"where the machine tells nothing": {text: "ada@box pid=7", want: Identity{User: "ada", Host: "box", PID: 7}, wantOK: true},
		"a user name with an at sign":     {text: "a@b@box pid=7", want: Identity{User: "a@b", Host: "box", PID: 7}, wantOK: true},
		"another program's holder":        {text: "manager-5d8f_1b2c"},
		"nobody":                          {text: ""},
		"a broken number":                 {text: "ada@box pid=seven"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := ParseIdentity(tc.text)
			if ok != tc.wantOK {
				t.Fatalf("ok is %t, want %t", ok, tc.wantOK)
			}
			if diff := cmp.Diff(got, tc.want); ok && diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

func TestIdentitySurvivesItsText(t *testing.T) {
	t.Parallel()
	id := Identity{User: "Ada Lovelace", Host: "box", PID: 7, Namespace: "1", Boot: "b", Start: 9}
	got, ok := ParseIdentity(id.String())
	id.User = "Ada_Lovelace"
	if diff := cmp.Diff(got, id); !ok || diff != "" {
		t.Errorf("ok is %t, got -, want +:\n%s", ok, diff)
	}
}

// stat is a line of /proc/PID/stat; the command tries to look like the end of itself.
func stat(pid, state, start string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(pid + " (a) R (b) " + state + " 1 7 7 0 -1 4194560 1 0 0 0 1 0 0 0 20 0 1 0 " + start + " 10 20\n")}
}

func TestDead(t *testing.T) {
	t.Parallel()
	self := Identity{User: "ada", Host: "box", PID: 1, Namespace: "ns", Boot: "boot", Start: 5}
	other := func(change func(*Identity)) Identity {
		id := Identity{User: "bob", Host: "box", PID: 7, Namespace: "ns", Boot: "boot", Start: 99}
		change(&id)
		return id
	}
	same := func(*Identity) {}
	for name, tc := range map[string]struct {
		other  Identity
		exists bool
		stat   *fstest.MapFile
		want   bool
	}{
		"the process lives":                          {other: other(same), exists: true, stat: stat("7", "S", "99")},
		"no process has its number":                  {other: other(same), want: true},
		"a later process has its number":             {other: other(same), exists: true, stat: stat("7", "S", "100"), want: true},
		"it was killed and not yet waited for":       {other: other(same), exists: true, stat: stat("7", "Z", "99"), want: true},
		"it is hidden from us":                       {other: other(same), exists: true},
		"it was on another machine or boot":          {other: other(func(i *Identity) { i.Boot = "other" })},
		"it is in another container":                 {other: other(func(i *Identity) { i.Namespace = "other" })},
		"it did not know when it started":            {other: other(func(i *Identity) { i.Start = 0 })},
		"it did not know its boot and neither do we": {other: other(func(i *Identity) { i.Boot = "" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			if tc.stat != nil {
				files["7/stat"] = tc.stat
			}
			p := Proc{FS: files, Exists: func(int) bool { return tc.exists }}
			if got := p.Dead(self, tc.other); got != tc.want {
				t.Errorf("dead is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	files := func() fstest.MapFS {
		return fstest.MapFS{
			"self/stat":                 stat("7", "S", "99"),
			"self/ns/pid":               {Data: []byte("pid:[4026531836]"), Mode: fs.ModeSymlink},
			"sys/kernel/random/boot_id": {Data: []byte("1b2c\n")},
		}
	}
	for name, tc := range map[string]struct {
		without string
		pid     int
		want    Identity
	}{
		"all facts":                            {pid: 7, want: Identity{PID: 7, Namespace: "4026531836", Boot: "1b2c", Start: 99}},
		"no boot ID":                           {pid: 7, without: "sys/kernel/random/boot_id", want: Identity{PID: 7}},
		"no PID namespace":                     {pid: 7, without: "self/ns/pid", want: Identity{PID: 7}},
		"the file system of another namespace": {pid: 12, want: Identity{PID: 12}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := files()
			delete(m, tc.without)
			got := Identity{PID: tc.pid}
			Proc{FS: m}.describe(&got)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

// TestDeadOnThisMachine judges real processes: ourselves, and one that was killed.
func TestDeadOnThisMachine(t *testing.T) {
	t.Parallel()
	self, proc := Self(), SystemProc()
	if self.Boot == "" {
		t.Skip("skipped: this machine does not tell processes apart (no /proc of our PID namespace)")
	}
	if proc.Dead(self, self) {
		t.Errorf("this process counts as dead: %s", self)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	other := self
	other.PID = cmd.Process.Pid
	s, ok := proc.stat(strconv.Itoa(other.PID))
	if !ok {
		t.Fatalf("no stat of process %d", other.PID)
	}
	other.Start = s.start
	if proc.Dead(self, other) {
		t.Error("a living process counts as dead")
	}
	if err := cmd.Process.Signal(os.Kill); err != nil {
		t.Fatalf("kill: %v", err)
	}
	_ = cmd.Wait() // always "killed"
	if !proc.Dead(self, other) {
		t.Error("a killed process counts as living")
	}
}
