package controllers

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

// A plan is what a pass wants.
type plan struct {
	// children in the order in which they are applied: a pod finds all that it
	// needs when it starts. The Deployment is last.
	children []*unstructured.Unstructured
	// revisions is how many old configurations are kept for a rollback.
	revisions int
	intended
}

// makePlan renders a relay. live is its present Deployment, nil if there is none.
// The error is a [*fault] when the spec cannot be had.
func makePlan(relay *v1alpha1.MoQRelay, options render.Options, live *appsv1.Deployment) (plan, error) {
	chosen, err := renderPlan(relay, options)
	if err != nil || live == nil || relay.Spec.SocketBuffers.Mode != v1alpha1.SocketBuffersAuto {
		return chosen, err
	}
	running := render.ModeOf(&live.Spec.Template.Spec)
	if running == chosen.mode {
		return chosen, nil
	}
	// What Auto chose is for the life of a template: a label on a namespace
	// restarts no relay. Pods that run already need no permission anew.
	options.HostAccess, options.AutoMode = true, running
	kept, err := renderPlan(relay, options)
	if err != nil {
		return plan{}, err
	}
	if same, err := sameTemplate(live, kept); err != nil || same {
		return kept, err
	}
	return chosen, nil
}

// sameTemplate says that the pods of live are what p wants.
func sameTemplate(live *appsv1.Deployment, p plan) (bool, error) {
	delta, err := difference(live, p.children[len(p.children)-1])
	if err != nil {
		return false, err
	}
	same := true
	delta.Leaves().Iterate(func(path fieldpath.Path) {
		if len(path) > 1 && isField(path[0], "spec") && isField(path[1], "template") {
			same = false
		}
	})
	return same, nil
}

func isField(e fieldpath.PathElement, name string) bool {
	return e.FieldName != nil && *e.FieldName == name
}

func renderPlan(relay *v1alpha1.MoQRelay, options render.Options) (plan, error) {
	objects, err := render.Render(relay, options)
	if err != nil {
		return plan{}, renderFault(err)
	}
	children, err := objects.Intents()
	if err != nil {
		return plan{}, err
	}
	return plan{
		children:  children,
		revisions: int(ptr.Deref(objects.Deployment.Spec.RevisionHistoryLimit, 0)),
		intended: intended{
			image: objects.Image, configHash: objects.ConfigHash, liveConfigHash: objects.LiveConfigHash,
			mode: objects.SocketBuffersMode, selector: render.SelectorLabels(relay),
		},
	}, nil
}

// renderFault tells apart what a person must mend from a bug.
func renderFault(err error) error {
	if invalid, ok := errors.AsType[*render.InvalidSpecError](err); ok {
		return faultf(v1alpha1.ReasonInvalidSpec, "%v", invalid)
	}
	if denied, ok := errors.AsType[*render.HostAccessError](err); ok {
		return faultf(v1alpha1.ReasonHostAccessNotAllowed, "%v", denied)
	}
	return fmt.Errorf("render: %w", err)
}
