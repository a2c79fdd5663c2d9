// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// maxShown bounds how much of a refused value is repeated, in bytes.
const maxShown = 200

// Load reads the environment of the process.
//
// The error joins one line for each variable that was refused, in the order of Config; each names the variable, the
// value, what is wrong, and an example that would do. The warnings, a line each, name variables that nobody reads but
// whose names are close to one that is read.
func Load() (cfg *Config, warnings []string, err error) {
	cfg = new(Config)
	var errs []error
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		if err := loadField(v.Type().Field(i), v.Field(i)); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, checkCollisions(cfg)...)
	}
	warnings = misspelled(os.Environ(), variables())
	if len(errs) > 0 {
		return nil, warnings, errors.Join(errs...)
	}
	return cfg, warnings, nil
}

// loadField reads one field. envconfig stops at the first value that it cannot read, so each field is given to it in a
// structure of its own: all bad values are reported at once.
func loadField(field reflect.StructField, dst reflect.Value) error {
	one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	err := envconfig.Process(Prefix, one.Interface())
	value := one.Elem().Field(0)
	if err == nil {
		err = checkBounds(field, value)
	}
	if err == nil {
		dst.Set(value)
		return nil
	}
	var parseErr *envconfig.ParseError
	if errors.As(err, &parseErr) {
		err = explain(field, parseErr.Err)
	}
	about := newVariable(field)
	shown, ok := os.LookupEnv(about.Name)
	if !ok {
		shown = about.Default
	}
	return fmt.Errorf("%s=%s: %w (example: %s=%s)", about.Name, quote(shown), err, about.Name, about.Example)
}

// explain replaces what the standard library says about a value: it repeats the value, at any length.
func explain(field reflect.StructField, err error) error {
	switch field.Type {
	case reflect.TypeFor[time.Duration]():
		return errors.New("it is a duration with a unit, such as 300ms, 5s or 1m30s")
	case reflect.TypeFor[bool]():
		return errors.New("it is true or false")
	default:
		return err
	}
}

// checkBounds compares a duration with the tags min and max of its field.
func checkBounds(field reflect.StructField, value reflect.Value) error {
	d, ok := value.Interface().(time.Duration)
	if !ok {
		return nil
	}
	low, err := time.ParseDuration(field.Tag.Get("min"))
	if err != nil {
		return fmt.Errorf("tag min of field %s: %w", field.Name, err)
	}
	high, err := time.ParseDuration(field.Tag.Get("max"))
	if err != nil {
		return fmt.Errorf("tag max of field %s: %w", field.Name, err)
	}
	if d < low || d > high {
		return fmt.Errorf("it is between %s and %s", field.Tag.Get("min"), field.Tag.Get("max"))
	}
	return nil
}

// checkCollisions finds listeners that cannot both be had.
func checkCollisions(cfg *Config) []error {
	var errs []error
	used := make(map[ListenAddr]string, len(cfg.ListenOn))
	for _, a := range cfg.ListenOn {
		used[a] = "NSM_LISTEN_ON"
	}
	claim := func(name string, a ListenAddr) {
		// Any number of listeners may ask for a free port.
		if strings.HasSuffix(a.Address, ":0") && a.Network == networkTCP {
			return
		}
		if other, ok := used[a]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is already used by %s; give each an address of its own", name, a, other))
			return
		}
		used[a] = name
	}
	claim("NSM_ADMIN_LISTEN_ON", cfg.AdminListenOn)
	if cfg.PprofEnabled {
		claim("NSM_PPROF_LISTEN_ON", ListenAddr{Network: networkTCP, Address: string(cfg.PprofListenOn)})
	}
	return errs
}

// quote keeps a value on one line, and short.
func quote(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q... (%d bytes)", s[:maxShown], len(s))
	}
	return fmt.Sprintf("%q", s)
}
