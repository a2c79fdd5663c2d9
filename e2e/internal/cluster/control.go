// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// etcd and the API server can be taken away and come back.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
)

// parts returns the command lines of the control plane, in the order in which they start.
func (b Binaries) parts() [][]string {
	config := func(name string) string { return filepath.Join(Dir, name+".kubeconfig") }
	const etcd = "http://127.0.0.1:2379"
	return [][]string{
		{
			// What a machine that fails could lose does not matter here; the disk of a small machine does.
			b.kube(Etcd), "--data-dir=" + filepath.Join(Dir, Etcd), "--unsafe-no-fsync", "--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
			"--listen-peer-urls=http://127.0.0.1:2380", "--log-level=warn",
		},
		{
			b.kube(APIServer), "--etcd-servers=" + etcd, "--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", apiServerPort),
			"--advertise-address=" + controlAddress, "--service-cluster-ip-range=" + serviceNetwork,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
			"--client-ca-file=" + pkiFile("ca.crt"), "--tls-cert-file=" + pkiFile("apiserver.crt"), "--tls-private-key-file=" + pkiFile("apiserver.key"),
			"--kubelet-certificate-authority=" + pkiFile("ca.crt"), "--kubelet-client-certificate=" + pkiFile("apiserver.crt"),
			"--kubelet-client-key=" + pkiFile("apiserver.key"), "--kubelet-preferred-address-types=InternalIP",
			"--service-account-key-file=" + pkiFile("sa.pub"), "--service-account-signing-key-file=" + pkiFile("sa.key"),
			"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
			// So that one that is to stop does so at once.
			"--shutdown-delay-duration=0s",
		},
		{
			b.kube("kube-controller-manager"), "--kubeconfig=" + config("kube-controller-manager"), "--use-service-account-credentials", "--leader-elect=false",
			"--service-account-private-key-file=" + pkiFile("sa.key"), "--root-ca-file=" + pkiFile("ca.crt"),
			// A lost node is noticed after this; the default would be 40 s and more.
			"--node-monitor-grace-period=16s", "--bind-address=127.0.0.1",
		},
		{b.kube("kube-scheduler"), "--kubeconfig=" + config("kube-scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1"},
		{b.DNS, "-conf", filepath.Join(Dir, "Corefile")},
	}
}

// corefile answers names of the cluster and knows of no others.
func corefile() string {
	return fmt.Sprintf(".:53 {\n  errors\n  kubernetes %s {\n    kubeconfig %s\n    pods insecure\n    ttl 5\n  }\n}\n",
		clusterDomain, filepath.Join(Dir, "coredns.kubeconfig"))
}

func (b Binaries) startControl(ctx context.Context) (kubernetes.Interface, error) {
	if err := os.WriteFile(filepath.Join(Dir, "Corefile"), []byte(corefile()), 0o644); err != nil {
		return nil, fmt.Errorf("write the configuration of CoreDNS: %w", err)
	}
	for _, part := range b.parts() {
		if err := control().start(filepath.Base(part[0]), part...); err != nil {
			return nil, err
		}
	}
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	if err := AwaitAPI(ctx, client); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(APIServer))
	}
	return client, makeDNS(ctx, client)
}

// makeDNS makes the Service under which pods find CoreDNS, which is no pod: it is part of the control plane, so that a
// lost node takes no names away.
func makeDNS(ctx context.Context, client kubernetes.Interface) error {
	const name = "kube-dns"
	ports := []corev1.ServicePort{
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: dnsServiceIP, Ports: ports},
	}
	if err := create(ctx, func() error {
		_, err := client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, service, metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("make the Service of CoreDNS: %w", err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{controlAddress}}},
	}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &port.Port})
	}
	if err := create(ctx, func() error {
		_, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Create(ctx, slice, metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("make the endpoint of CoreDNS: %w", err)
	}
	return nil
}

// create tries until the namespaces are there, which the API server makes itself.
func create(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if pause(ctx) != nil {
			return err
		}
	}
}

// AwaitAPI waits until the API server is ready.
func AwaitAPI(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx) != nil {
			return fmt.Errorf("the API server does not get ready: %w", err)
		}
	}
}

// Stop kills a part of the control plane.
func Stop(ctx context.Context, part string) error {
	if err := signal(part, syscall.SIGKILL); err != nil {
		return err
	}
	return gone(ctx, part)
}

// Start starts a part of the control plane that was stopped.
func (b Binaries) Start(part string) error {
	for _, line := range b.parts() {
		if filepath.Base(line[0]) == part {
			return control().start(part, line...)
		}
	}
	return fmt.Errorf("the control plane has no %s", part)
}
