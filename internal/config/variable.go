// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/kelseyhightower/envconfig"
)

// variable is what people are told about one field of Config.
type variable struct {
	Name, Default, Example, Meaning string
}

// newVariable describes field. envconfig is asked for the name, so that there is one rule for names alone.
func newVariable(field reflect.StructField) variable {
	one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	var name strings.Builder
	if err := envconfig.Usaget(Prefix, one.Interface(), &name, nameTemplate()); err != nil {
		// The template and the structure are ours and the writer cannot fail; a test describes every field.
		panic(fmt.Sprintf("config: name of field %s: %v", field.Name, err))
	}
	v := variable{
		Name:    name.String(),
		Default: field.Tag.Get("default"),
		Example: field.Tag.Get("example"),
		Meaning: field.Tag.Get("desc"),
	}
	if v.Example == "" {
		v.Example = v.Default
	}
	return v
}

func nameTemplate() *template.Template {
	return template.Must(template.New("name").Parse("{{range .}}{{.Key}}{{end}}"))
}

// variables describes all fields of Config, in their order.
func variables() []variable {
	t := reflect.TypeFor[Config]()
	vars := make([]variable, t.NumField())
	for i := range vars {
		vars[i] = newVariable(t.Field(i))
	}
	return vars
}

// meaningWidth is how many columns the meaning of a variable takes in the help text.
const meaningWidth = 64

// maxDefaultWidth is the width of the longest default that has a place in its column.
const maxDefaultWidth = 40

// Usage writes a table of all variables for people at a terminal.
func Usage(w io.Writer) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tabs, "  VARIABLE\tDEFAULT\tMEANING")
	for _, v := range variables() {
		shown, meaning := v.Default, v.Meaning
		if len(shown) > maxDefaultWidth {
			meaning += " Default: " + strings.ReplaceAll(shown, ",", ", ")
			shown = "(see right)"
		}
		first, rest := "  "+v.Name+"\t"+shown+"\t", "  \t\t"
		for line := range wrap(meaning, meaningWidth) {
			fmt.Fprintln(tabs, first+line)
			first = rest
		}
	}
	if err := tabs.Flush(); err != nil {
		return fmt.Errorf("write the table of variables: %w", err)
	}
	return nil
}

// wrap yields the words of text in lines of at most width bytes; a longer word has a line of its own.
func wrap(text string, width int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var line string
		for _, word := range strings.Fields(text) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) <= width:
				line += " " + word
			default:
				if !yield(line) {
					return
				}
				line = word
			}
		}
		yield(line)
	}
}
