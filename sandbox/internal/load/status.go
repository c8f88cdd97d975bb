// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

// settled is the time of every condition: content must not depend on when it is made.
const settled = "2026-01-02T03:04:05Z"

// condition is one that has not changed for long.
func condition(conditionType, status, reason, message string) map[string]any {
	return map[string]any{
		"type": conditionType, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": settled, "observedGeneration": int64(1),
	}
}

func yes(conditionType, reason string) map[string]any {
	return condition(conditionType, "True", reason, "")
}

func no(conditionType string) map[string]any {
	return condition(conditionType, "False", "Not"+conditionType, "")
}

// paused is what controllers write on objects of a paused Cluster, word for word: they leave alone what has it.
func paused() map[string]any {
	return condition("Paused", "True", "Paused", "Cluster spec.paused is set to true")
}

func conditions(all ...map[string]any) []any {
	out := make([]any, 0, len(all))
	for _, c := range all {
		out = append(out, c)
	}
	return out
}

// deprecated is the part of a status that is in the words of v1beta1.
func deprecated(fields map[string]any, types ...string) map[string]any {
	all := make([]any, 0, len(types))
	for _, t := range types {
		all = append(all, map[string]any{"type": t, "status": "True", "lastTransitionTime": settled})
	}
	fields["conditions"] = all
	return map[string]any{"v1beta1": fields}
}

// counted are the counts of an owner all of whose Machines are there, as wanted and at work.
func counted(replicas int, more map[string]any) map[string]any {
	for _, name := range []string{"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"} {
		more[name] = int64(replicas)
	}
	return more
}

func clusterStatus(controlPlanes, workers int) map[string]any {
	return map[string]any{
		"phase": "Provisioned", "observedGeneration": int64(1),
		"initialization": map[string]any{"controlPlaneInitialized": true, "infrastructureProvisioned": true},
		"controlPlane":   counted(controlPlanes, map[string]any{"desiredReplicas": int64(controlPlanes)}),
		"workers":        counted(workers, map[string]any{"desiredReplicas": int64(workers)}),
		"deprecated":     deprecated(map[string]any{}, "Ready", "ControlPlaneInitialized", "ControlPlaneReady", "InfrastructureReady"),
		"conditions": conditions(
			yes("Available", "Available"), yes("RemoteConnectionProbe", "ProbeSucceeded"), yes("InfrastructureReady", "Ready"),
			yes("ControlPlaneInitialized", "Initialized"), yes("ControlPlaneAvailable", "Available"), yes("WorkersAvailable", "Available"),
			no("RollingOut"), no("Remediating"), no("ScalingDown"), no("ScalingUp"), yes("ControlPlaneMachinesReady", "Ready"),
			yes("WorkerMachinesReady", "Ready"), yes("ControlPlaneMachinesUpToDate", "UpToDate"), yes("WorkerMachinesUpToDate", "UpToDate"),
			paused(), no("Deleting"),
		),
	}
}

func controlPlaneStatus(replicas int, version, selector string) map[string]any {
	return counted(replicas, map[string]any{
		"version": version, "selector": selector, "observedGeneration": int64(1),
		"initialization": map[string]any{"controlPlaneInitialized": true},
		"deprecated": deprecated(map[string]any{"readyReplicas": int64(replicas), "unavailableReplicas": int64(0), "updatedReplicas": int64(replicas)},
			"Ready", "Available", "CertificatesAvailable", "ControlPlaneComponentsHealthy", "EtcdClusterHealthy", "MachinesCreated", "MachinesReady", "Resized"),
		"conditions": conditions(
			yes("Available", "Available"), yes("CertificatesAvailable", "Available"), yes("Initialized", "Initialized"),
			yes("EtcdClusterHealthy", "Healthy"), yes("ControlPlaneComponentsHealthy", "Healthy"),
			no("RollingOut"), no("Remediating"), no("ScalingDown"), no("ScalingUp"), yes("MachinesReady", "Ready"), yes("MachinesUpToDate", "UpToDate"),
			paused(), no("Deleting"),
		),
	})
}

func deploymentStatus(replicas int, selector string) map[string]any {
	return counted(replicas, map[string]any{
		"phase": "Running", "selector": selector, "observedGeneration": int64(1),
		"deprecated": deprecated(map[string]any{
			"availableReplicas": int64(replicas), "readyReplicas": int64(replicas), "unavailableReplicas": int64(0), "updatedReplicas": int64(replicas),
		}, "Ready", "Available", "MachineSetReady"),
		"conditions": conditions(
			yes("Available", "Available"), no("RollingOut"), no("Remediating"), no("ScalingDown"), no("ScalingUp"),
			yes("MachinesReady", "Ready"), yes("MachinesUpToDate", "UpToDate"), paused(), no("Deleting"),
		),
	})
}

func setStatus(replicas int, selector string) map[string]any {
	return counted(replicas, map[string]any{
		"selector": selector, "observedGeneration": int64(1),
		"deprecated": deprecated(map[string]any{
			"availableReplicas": int64(replicas), "fullyLabeledReplicas": int64(replicas), "readyReplicas": int64(replicas),
		}, "Ready", "MachinesCreated", "MachinesReady", "Resized"),
		"conditions": conditions(
			no("Remediating"), no("ScalingDown"), no("ScalingUp"), yes("MachinesReady", "Ready"), yes("MachinesUpToDate", "UpToDate"),
			paused(), no("Deleting"),
		),
	})
}

func machineStatus(node string, controlPlane bool) map[string]any {
	all := conditions(
		yes("Available", "Available"), yes("Ready", "Ready"), yes("UpToDate", "UpToDate"), yes("BootstrapConfigReady", "Ready"),
		yes("InfrastructureReady", "Ready"), yes("NodeHealthy", "NodeHealthy"), yes("NodeReady", "NodeReady"),
		no("Updating"), paused(), no("Deleting"),
	)
	old := []string{"Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"}
	if controlPlane {
		all = append(all,
			yes("NodeKubeadmLabelsAndTaintsSet", "Set"), yes("EtcdPodHealthy", "Running"), yes("EtcdMemberHealthy", "Healthy"),
			yes("APIServerPodHealthy", "Running"), yes("ControllerManagerPodHealthy", "Running"), yes("SchedulerPodHealthy", "Running"),
		)
		old = append(old, "APIServerPodHealthy", "ControllerManagerPodHealthy", "EtcdMemberHealthy", "EtcdPodHealthy", "SchedulerPodHealthy")
	}
	return map[string]any{
		"phase": "Running", "observedGeneration": int64(1), "lastUpdated": settled,
		"nodeRef":        map[string]any{"name": node},
		"initialization": map[string]any{"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true},
		"deprecated":     deprecated(map[string]any{}, old...),
		"nodeInfo": map[string]any{
			"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.4", "kernelVersion": "6.8.0-60-generic", "kubeProxyVersion": "",
			"kubeletVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "Ubuntu 24.04.3 LTS", "systemUUID": "",
		},
		"conditions": all,
	}
}
