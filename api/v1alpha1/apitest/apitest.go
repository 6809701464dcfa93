// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest does in process what the API server does with a created
// MoQRelay, with the API server's own packages: Load the generated CRD, then
// Admit objects. It is for tests alone.
package apitest

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// CRD is the generated CustomResourceDefinition as the API server sees it.
type CRD struct {
	definition *apiextensions.CustomResourceDefinition
	structural *structuralschema.Structural
	validator  apiservervalidation.SchemaValidator
	rules      *cel.Validator
}

// Load reads the CRD from a file.
func Load(file string) (*CRD, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the CRD: %w", err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
		return nil, fmt.Errorf("parse the CRD: %w", err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	definition := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, definition, nil); err != nil {
		return nil, fmt.Errorf("convert the CRD: %w", err)
	}
	definition.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
	return compile(definition)
}

func compile(definition *apiextensions.CustomResourceDefinition) (*CRD, error) {
	crd := &CRD{definition: definition}
	schema, err := apiextensions.GetSchemaForVersion(definition, v1alpha1.GroupVersion.Version)
	if err != nil {
		return nil, fmt.Errorf("find the schema: %w", err)
	}
	if crd.structural, err = structuralschema.NewStructural(schema.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("make the schema structural: %w", err)
	}
	if crd.validator, _, err = apiservervalidation.NewSchemaValidator(schema.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("make a validator: %w", err)
	}
	crd.rules = cel.NewValidator(crd.structural, true, celconfig.PerCallLimit)
	return crd, nil
}

// Validate returns what the API server finds wrong with the CRD itself, the
// estimated cost of its rules and its defaults included.
func (c *CRD) Validate(ctx context.Context) field.ErrorList {
	return validation.ValidateCustomResourceDefinition(ctx, c.definition)
}

// Admit prunes, defaults and judges an object in place. Unknown fields are faults,
// as with strict field validation, which is kubectl's default.
func (c *CRD) Admit(ctx context.Context, object map[string]any) field.ErrorList {
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	var errs field.ErrorList
	for _, path := range pruning.PruneWithOptions(object, c.structural, true, options) {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	defaulting.Default(object, c.structural)
	errs = append(errs, apiservervalidation.ValidateCustomResource(nil, object, c.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(errs) > 0 {
		return errs
	}
	errs, _ = c.rules.Validate(ctx, nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// Parse reads a manifest in YAML as the API server does: whole numbers stay whole.
func Parse(manifest []byte) (map[string]any, error) {
	object := map[string]any{}
	content, err := yaml.YAMLToJSONStrict(manifest)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if err := utiljson.Unmarshal(content, &object); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return object, nil
}

// Create reads a MoQRelay in YAML and returns it as the API server would store it.
func (c *CRD) Create(ctx context.Context, manifest []byte) (*v1alpha1.MoQRelay, error) {
	object, err := Parse(manifest)
	if err != nil {
		return nil, err
	}
	if errs := c.Admit(ctx, object); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	relay := &v1alpha1.MoQRelay{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, relay, true); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return relay, nil
}
