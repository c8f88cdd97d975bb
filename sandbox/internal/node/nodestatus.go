// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeStatus is what the Node says of itself. It is virtual-kubelet's node
// provider.
type nodeStatus struct {
	cfg Config

	mu     sync.Mutex
	list   corev1.ResourceList
	ready  metav1.Time // since when
	notify func(*corev1.Node)
}

func newNodeStatus(cfg Config) *nodeStatus {
	return &nodeStatus{cfg: cfg, list: cfg.Capacity, ready: metav1.NewTime(cfg.Clock.Now())}
}

func (n *nodeStatus) capacity() corev1.ResourceList {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list.DeepCopy()
}

func (n *nodeStatus) setCapacity(list corev1.ResourceList) {
	n.mu.Lock()
	n.list = list
	notify := n.notify
	n.mu.Unlock()
	if notify != nil {
		notify(n.node())
	}
}

// Ping has nothing to check: the agent is the node.
func (n *nodeStatus) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus keeps the function to call when something changes.
func (n *nodeStatus) NotifyNodeStatus(_ context.Context, notify func(*corev1.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify = notify
}

// node is the whole object.
func (n *nodeStatus) node() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	labels := map[string]string{
		corev1.LabelHostname:   n.cfg.NodeName,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, n.cfg.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.cfg.NodeName, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    n.list.DeepCopy(),
			Allocatable: n.list.DeepCopy(),
			Conditions:  n.conditions(),
			// No host name: the API server would prefer it, and there is no DNS.
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.cfg.NodeIP.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{
				KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n.cfg.Port)}, //nolint:gosec // a port
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: n.cfg.KubeletVersion, OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
				OSImage: "Capstan sandbox", ContainerRuntimeVersion: "capstan://1.0.0", KernelVersion: kernelVersion(),
			},
		},
	}
}

// kernelVersion is empty when the kernel does not say.
func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

func (n *nodeStatus) conditions() []corev1.NodeCondition {
	now := metav1.NewTime(n.cfg.Clock.Now())
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: now, LastTransitionTime: n.ready,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// runNode keeps the Node object and its Lease up to date until ctx ends. The
// API server may not be there yet, or be away: it tries again.
func (a *Agent) runNode(ctx context.Context) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		err := a.runNodeOnce(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // being told to end is no fault
		}
		a.cfg.Log.Warn("register Node", "node", a.cfg.NodeName, "err", err, "retryAfter", delay)
		select {
		case <-a.cfg.Clock.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *Agent) runNodeOnce(ctx context.Context) error {
	nodes := a.cfg.Client.CoreV1().Nodes()
	recreate := func(ctx context.Context, err error) error {
		if !apierrors.IsNotFound(err) {
			return err
		}
		_, err = nodes.Create(ctx, a.node.node(), metav1.CreateOptions{})
		return err
	}
	controller, err := vknode.NewNodeController(a.node, a.node.node(), nodes,
		vknode.WithNodeEnableLeaseV1(a.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease), vknode.DefaultLeaseDuration),
		vknode.WithNodeStatusUpdateInterval(time.Minute),
		vknode.WithNodeStatusUpdateErrorHandler(recreate),
	)
	if err != nil {
		return fmt.Errorf("make node controller: %w", err)
	}
	defer a.node.NotifyNodeStatus(ctx, nil)
	return controller.Run(ctx)
}
