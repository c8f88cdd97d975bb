// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes one kubeconfig for each identity that talks to the API server. Only the outside administrator's goes through the
// proxy.
func writeKubeconfigs(c Config, f Files, p *pki) error {
	admin := identity{"kubernetes-admin", []string{"system:masters"}}
	// The node agent watches all Secrets and ConfigMaps at once, which the Node authorizer does not allow a node; hence the second group.
	node := identity{"system:node:" + c.NodeName, []string{"system:nodes", "system:masters"}}
	configs := []struct {
		path  string
		id    identity
		proxy string
	}{
		{f.Kubeconfig(), admin, c.ProxyURL},
		{f.AdminKubeconfig(), admin, ""},
		{f.conf("controller-manager.conf"), identity{"system:kube-controller-manager", nil}, ""},
		{f.conf("scheduler.conf"), identity{"system:kube-scheduler", nil}, ""},
		{f.NodeKubeconfig(), node, ""},
	}
	for _, k := range configs {
		leaf, err := p.sign(client(k.id), p.ca)
		if err != nil {
			return fmt.Errorf("sign certificate for %s: %w", k.id.user, err)
		}
		kc, err := kubeconfig(c, p.ca, leaf, k.id.user, k.proxy)
		if err != nil {
			return err
		}
		if err := clientcmd.WriteToFile(kc, k.path); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

func kubeconfig(c Config, ca, leaf pair, user, proxy string) (clientcmdapi.Config, error) {
	key, err := x509.MarshalPKCS8PrivateKey(leaf.key)
	if err != nil {
		return clientcmdapi.Config{}, fmt.Errorf("encode key: %w", err)
	}
	name := "sandbox-" + c.Name
	kc := *clientcmdapi.NewConfig()
	kc.CurrentContext = name
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	kc.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   c.Server(),
		ProxyURL:                 proxy,
		CertificateAuthorityData: encodePEM("CERTIFICATE", ca.cert.Raw),
	}
	kc.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: encodePEM("CERTIFICATE", leaf.cert.Raw),
		ClientKeyData:         encodePEM("PRIVATE KEY", key),
	}
	return kc, nil
}
