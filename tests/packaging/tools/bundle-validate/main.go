// Bundle-validate reports what the validators of the Operator Framework find in a bundle: what
// `operator-sdk bundle validate` calls. It ends with 1 if any of them reports an error, or a warning
// that is not named by -allow.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

func main() {
	allow := flag.String("allow", "", "text of warnings that do not count")
	flag.Parse()
	bundle, err := manifests.GetBundleFromDir(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	validators := append(interfaces.Validators{}, validation.DefaultBundleValidators...)
	validators = append(validators,
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator,
		validation.AlphaDeprecatedAPIsValidator,
	)
	objects := []interface{}{bundle}
	for _, each := range bundle.Objects {
		objects = append(objects, each)
	}
	bad := 0
	for _, result := range validators.Validate(objects...) {
		for _, found := range append(append([]errors.Error{}, result.Errors...), result.Warnings...) {
			allowed := *allow != "" && strings.Contains(found.Error(), *allow)
			fmt.Printf("%s: %s\n", result.Name, found.Error())
			if !allowed {
				bad++
			}
		}
	}
	if bad > 0 {
		os.Exit(1)
	}
}
