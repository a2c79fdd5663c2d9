// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// certLifetime is longer than any cluster of these.
const certLifetime = 24 * time.Hour

// authority issues the certificates of the cluster. Its key is nowhere but in memory.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	next int64
}

func pkiFile(name string) string { return filepath.Join(Dir, "pki", name) }

func newAuthority() (*authority, error) {
	if err := os.MkdirAll(pkiFile(""), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the cluster: %w", err)
	}
	a := &authority{key: key, next: 1}
	template := a.template(pkix.Name{CommonName: prefix})
	template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature, nil
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of the cluster: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the certificate of the cluster: %w", err)
	}
	return a, writePEM(pkiFile("ca.crt"), "CERTIFICATE", der)
}

func (a *authority) template(subject pkix.Name) *x509.Certificate {
	a.next++
	return &x509.Certificate{
		SerialNumber:          big.NewInt(a.next),
		Subject:               subject,
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(certLifetime),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue writes NAME.crt and NAME.key for who is called commonName in that organisation.
func (a *authority) issue(name, commonName, organisation string, addresses []string, names ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", name, err)
	}
	subject := pkix.Name{CommonName: commonName}
	if organisation != "" {
		subject.Organization = []string{organisation}
	}
	template := a.template(subject)
	template.DNSNames = names
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	if err := writePEM(pkiFile(name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(pkiFile(name+".key"), key)
}

// issueServiceAccounts writes the key pair with which tokens of service accounts are signed.
func issueServiceAccounts() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the key of service accounts: %w", err)
	}
	if err := writePEM(pkiFile("sa.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(pkiFile("sa.key"), key)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}

// writeKubeconfig writes the file with which whoever has the certificate NAME.crt reaches the API server.
func writeKubeconfig(path, name string) error {
	config := api.NewConfig()
	config.Clusters[prefix] = &api.Cluster{
		Server:               fmt.Sprintf("https://%s:%d", controlAddress, apiServerPort),
		CertificateAuthority: pkiFile("ca.crt"),
	}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificate: pkiFile(name + ".crt"), ClientKey: pkiFile(name + ".key")}
	config.Contexts[prefix] = &api.Context{Cluster: prefix, AuthInfo: name}
	config.CurrentContext = prefix
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// makePKI writes all certificates and kubeconfigs.
func makePKI() error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	const masters = "system:masters"
	if err := a.issue("apiserver", "kube-apiserver", masters, []string{controlAddress, apiServiceIP, "127.0.0.1"},
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc."+clusterDomain); err != nil {
		return err
	}
	if err := issueServiceAccounts(); err != nil {
		return err
	}
	clients := map[string][2]string{
		"admin":                   {"admin", masters},
		"kube-controller-manager": {"system:kube-controller-manager", ""},
		"kube-scheduler":          {"system:kube-scheduler", ""},
		"kube-proxy":              {"system:kube-proxy", ""},
		"coredns":                 {"coredns", masters},
	}
	for name, who := range clients {
		if err := a.issue(name, who[0], who[1], nil); err != nil {
			return err
		}
		if err := writeKubeconfig(filepath.Join(Dir, name+".kubeconfig"), name); err != nil {
			return err
		}
	}
	for _, n := range nodes() {
		if err := a.issue(n.Name(), "system:node:"+n.Name(), "system:nodes", []string{n.address()}, n.Name()); err != nil {
			return err
		}
		if err := writeKubeconfig(filepath.Join(Dir, n.Name()+".kubeconfig"), n.Name()); err != nil {
			return err
		}
	}
	return nil
}
