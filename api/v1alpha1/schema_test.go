// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../config/crd/bases/moqrelay.io_moqrelays.yaml"

// crdSchema is the generated CRD as the API server sees it.
type crdSchema struct {
	crd        *apiextensions.CustomResourceDefinition
	structural *structuralschema.Structural
	validator  apiservervalidation.SchemaValidator
	rules      *cel.Validator
}

func loadCRD(t *testing.T) *crdSchema {
	t.Helper()
	raw, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatalf("read the generated CRD: %v", err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
		t.Fatalf("parse the generated CRD: %v", err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	var s crdSchema
	s.crd = &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, s.crd, nil); err != nil {
		t.Fatalf("convert the CRD: %v", err)
	}
	s.crd.Status.StoredVersions = []string{"v1alpha1"}
	schema, err := apiextensions.GetSchemaForVersion(s.crd, "v1alpha1")
	if err != nil {
		t.Fatalf("schema of v1alpha1: %v", err)
	}
	if s.structural, err = structuralschema.NewStructural(schema.OpenAPIV3Schema); err != nil {
		t.Fatalf("structural schema: %v", err)
	}
	if s.validator, _, err = apiservervalidation.NewSchemaValidator(schema.OpenAPIV3Schema); err != nil {
		t.Fatalf("schema validator: %v", err)
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return &s
}

// admit does what the API server does with a created object: prune, default,
// validate, and run the rules. It returns the defaulted object and the faults.
func (s *crdSchema) admit(t *testing.T, object string) (map[string]any, field.ErrorList) {
	t.Helper()
	var obj map[string]any
	if err := yaml.UnmarshalStrict([]byte(object), &obj); err != nil {
		t.Fatalf("parse %s: %v", object, err)
	}
	unknown := pruning.PruneWithOptions(obj, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.structural)
	defaulting.Default(obj, s.structural)
	var errs field.ErrorList
	for _, path := range unknown {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	errs = append(errs, apiservervalidation.ValidateCustomResource(nil, obj, s.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, obj)...)
	if len(errs) == 0 {
		ruleErrs, _ := s.rules.Validate(t.Context(), nil, s.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, ruleErrs...)
	}
	return obj, errs
}

// This covers the estimated cost of every rule, and every default.
func TestTheGeneratedCRDIsAcceptedByTheAPIServersOwnValidation(t *testing.T) {
	s := loadCRD(t)
	if errs := validation.ValidateCustomResourceDefinition(t.Context(), s.crd); len(errs) != 0 {
		t.Fatalf("the API server would refuse the CRD:\n%s", lines(errs))
	}
}

func TestTheGeneratedCRDIsUnder300KiB(t *testing.T) {
	info, err := os.Stat(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= 300<<10 {
		t.Errorf("the CRD has %d bytes, want fewer than %d", info.Size(), 300<<10)
	}
}

func lines(errs field.ErrorList) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(err.Error() + "\n")
	}
	return b.String()
}
