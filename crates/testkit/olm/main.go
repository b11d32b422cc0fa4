// What operator-sdk's `bundle validate` says of an OLM bundle, with all of its optional suites, and what the definition of
// ClusterServiceVersion says: a line for each finding, `error: …` or `warning: …`. It fails when it can't judge, not for what it finds.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: olm BUNDLE-DIRECTORY"))
	}
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	fail(err)
	// Without the one that asks a registry for the architectures of images.
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.OperatorHubV2Validator,
		validation.StandardCategoriesValidator,
		validation.StandardCapabilitiesValidator,
		validation.ObjectValidator,
		validation.CommunityOperatorValidator,
		validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator,
	)
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, found := range result.Errors {
			fmt.Println("error:", found.Error())
		}
		for _, found := range result.Warnings {
			fmt.Println("warning:", found.Error())
		}
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "manifests", "*.clusterserviceversion.yaml"))
	fail(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail(err)
		var object map[string]interface{}
		fail(yaml.Unmarshal(text, &object))
		bySchema(object)
	}
}

// Fields that are not as they have to be, and fields that nobody knows.
func bySchema(object map[string]interface{}) {
	var definition apiextensions.CustomResourceDefinition
	fail(apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		crds.ClusterServiceVersion(), &definition, nil))
	properties, err := apiextensions.GetSchemaForVersion(&definition, "v1alpha1")
	fail(err)
	validator, _, err := schemavalidation.NewSchemaValidator(properties.OpenAPIV3Schema)
	fail(err)
	for _, found := range schemavalidation.ValidateCustomResource(nil, object, validator) {
		fmt.Println("error:", found)
	}
	structural, err := schema.NewStructural(properties.OpenAPIV3Schema)
	fail(err)
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, structural, true, options) {
		fmt.Println("error: unknown field", path)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}
