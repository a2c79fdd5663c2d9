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

func serviceKind() kind[*v1.NetworkService] {
	spec := func(o *v1.NetworkService) *registry.NetworkService { return (*registry.NetworkService)(&o.Spec) }
	return kind[*v1.NetworkService]{
		group:    v1.SchemeGroupVersion.WithKind("NetworkService").GroupKind(),
		resource: v1.Resource("networkservices"),
		empty:    func() *v1.NetworkService { return new(v1.NetworkService) },
		clone: func(o *v1.NetworkService) *v1.NetworkService {
			c := &v1.NetworkService{TypeMeta: o.TypeMeta}
			o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
			proto.Merge(spec(c), spec(o))
			return c
		},
		sameSpec: func(a, b *v1.NetworkService) bool { return proto.Equal(spec(a), spec(b)) },
	}
}

// services is the client of the NetworkServices in one namespace, or in all.
type services struct {
	namespace  string
	collection *collection[*v1.NetworkService]
}

// Create implements the client's interface.
func (e services) Create(ctx context.Context, o *v1.NetworkService, options metav1.CreateOptions) (*v1.NetworkService, error) {
	return e.collection.create(ctx, e.namespace, o, options)
}

// Update implements the client's interface.
func (e services) Update(ctx context.Context, o *v1.NetworkService, options metav1.UpdateOptions) (*v1.NetworkService, error) {
	return e.collection.update(ctx, e.namespace, o, options)
}

// Delete implements the client's interface.
func (e services) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return e.collection.remove(ctx, e.namespace, name, options)
}

// DeleteCollection implements the client's interface.
func (e services) DeleteCollection(ctx context.Context, options metav1.DeleteOptions, listOptions metav1.ListOptions) error {
	return e.collection.removeAll(ctx, e.namespace, options, listOptions)
}

// Get implements the client's interface.
func (e services) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.NetworkService, error) {
	return e.collection.get(ctx, e.namespace, name)
}

// List implements the client's interface.
func (e services) List(ctx context.Context, options metav1.ListOptions) (*v1.NetworkServiceList, error) {
	objects, version, err := e.collection.list(ctx, e.namespace, options)
	if err != nil {
		return new(v1.NetworkServiceList), err
	}
	list := &v1.NetworkServiceList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: make([]v1.NetworkService, len(objects))}
	for i, o := range objects {
		item := &list.Items[i]
		item.TypeMeta = o.TypeMeta
		o.ObjectMeta.DeepCopyInto(&item.ObjectMeta)
		proto.Merge((*registry.NetworkService)(&item.Spec), (*registry.NetworkService)(&o.Spec))
	}
	return list, nil
}

// Watch implements the client's interface.
func (e services) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return e.collection.watch(ctx, e.namespace, options)
}

// Patch is refused.
func (e services) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.NetworkService, error) {
	return nil, e.collection.unsupported("patch")
}
