package controllers

import "github.com/moqrelay/operator/api/v1alpha1"

const (
	// annotationPaused with the value "true" on a MoQRelay keeps the operator from
	// changing its children. The status is still written.
	annotationPaused = v1alpha1.Group + "/paused"
	// reasonPaused (Reconciled: False): the user set the annotation, and removes it.
	reasonPaused = "Paused"
)
