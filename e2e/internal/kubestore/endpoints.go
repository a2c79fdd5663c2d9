// SPDX-License-Identifier: Apache-2.0

package kubestore

import (
	"context"

	"github.com/networkservicemesh/api/pkg/api/registry"
	v1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/apis/networkservicemesh.io/v1"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func endpointKind() kind[*v1.NetworkServiceEndpoint] {
	spec := func(o *v1.NetworkServiceEndpoint) *registry.NetworkServiceEndpoint {
		return (*registry.NetworkServiceEndpoint)(&o.Spec)
	}
	return kind[*v1.NetworkServiceEndpoint]{
		group:    v1.SchemeGroupVersion.WithKind("NetworkServiceEndpoint").GroupKind(),
		resource: v1.Resource("networkserviceendpoints"),
		empty:    func() *v1.NetworkServiceEndpoint { return new(v1.NetworkServiceEndpoint) },
		clone: func(o *v1.NetworkServiceEndpoint) *v1.NetworkServiceEndpoint {
			c := &v1.NetworkServiceEndpoint{TypeMeta: o.TypeMeta}
			o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
			proto.Merge(spec(c), spec(o))
			return c
		},
		sameSpec: func(a, b *v1.NetworkServiceEndpoint) bool { return proto.Equal(spec(a), spec(b)) },
	}
}

// endpoints is the client of the NetworkServiceEndpoints in one namespace, or in all.
type endpoints struct {
	namespace  string
	collection *collection[*v1.NetworkServiceEndpoint]
}

// Create implements the client's interface.
func (e endpoints) Create(ctx context.Context, o *v1.NetworkServiceEndpoint, options metav1.CreateOptions) (*v1.NetworkServiceEndpoint, error) {
	return e.collection.create(ctx, e.namespace, o, options)
}

// Update implements the client's interface.
func (e endpoints) Update(ctx context.Context, o *v1.NetworkServiceEndpoint, options metav1.UpdateOptions) (*v1.NetworkServiceEndpoint, error) {
	return e.collection.update(ctx, e.namespace, o, options)
}

// Delete implements the client's interface.
func (e endpoints) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return e.collection.remove(ctx, e.namespace, name, options)
}

// DeleteCollection implements the client's interface.
func (e endpoints) DeleteCollection(ctx context.Context, options metav1.DeleteOptions, listOptions metav1.ListOptions) error {
	return e.collection.removeAll(ctx, e.namespace, options, listOptions)
}

// Get implements the client's interface.
func (e endpoints) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.NetworkServiceEndpoint, error) {
	return e.collection.get(ctx, e.namespace, name)
}

// List implements the client's interface.
func (e endpoints) List(ctx context.Context, options metav1.ListOptions) (*v1.NetworkServiceEndpointList, error) {
	objects, version, err := e.collection.list(ctx, e.namespace, options)
	if err != nil {
		return new(v1.NetworkServiceEndpointList), err
	}
	list := &v1.NetworkServiceEndpointList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: make([]v1.NetworkServiceEndpoint, len(objects))}
	for i, o := range objects {
		item := &list.Items[i]
		item.TypeMeta = o.TypeMeta
		o.ObjectMeta.DeepCopyInto(&item.ObjectMeta)
		proto.Merge((*registry.NetworkServiceEndpoint)(&item.Spec), (*registry.NetworkServiceEndpoint)(&o.Spec))
	}
	return list, nil
}

// Watch implements the client's interface.
func (e endpoints) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return e.collection.watch(ctx, e.namespace, options)
}

// Patch is refused.
func (e endpoints) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.NetworkServiceEndpoint, error) {
	return nil, e.collection.unsupported("patch")
}
