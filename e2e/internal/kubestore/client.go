// SPDX-License-Identifier: Apache-2.0

package kubestore

import (
	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned"
	typedv1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned/typed/networkservicemesh.io/v1"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// client is a clientset on a store.
type client struct {
	store *Store
}

var _ versioned.Interface = client{}

// Discovery returns a client that discovers nothing.
func (c client) Discovery() discovery.DiscoveryInterface {
	return &fakediscovery.FakeDiscovery{Fake: new(clienttesting.Fake)}
}

// NetworkservicemeshV1 returns the client of the custom resources.
func (c client) NetworkservicemeshV1() typedv1.NetworkservicemeshV1Interface { return typedClient(c) }

// typedClient is the client of the custom resources.
type typedClient struct {
	store *Store
}

// RESTClient returns nil, as fake clientsets do: there is no server to talk to.
func (c typedClient) RESTClient() rest.Interface { return nil }

// NetworkServices returns the client for one namespace, or for all if namespace is empty.
func (c typedClient) NetworkServices(namespace string) typedv1.NetworkServiceInterface {
	return services{namespace: namespace, collection: c.store.services}
}

// NetworkServiceEndpoints returns the client for one namespace, or for all if namespace is empty.
func (c typedClient) NetworkServiceEndpoints(namespace string) typedv1.NetworkServiceEndpointInterface {
	return endpoints{namespace: namespace, collection: c.store.endpoints}
}
