package main

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/klog/v2"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	loggerType  = reflect.TypeFor[klog.Logger]()
	errorType   = reflect.TypeFor[error]()
)

// call calls a function that takes a context or a logger before its other parameters in some minors, and returns its
// results less the error that comes last. An argument nil stands for the parameter's zero value.
func call(function any, arguments ...any) ([]any, error) {
	callee := reflect.ValueOf(function)
	parameters := callee.Type()
	var values []reflect.Value
	for len(values)+len(arguments) < parameters.NumIn() {
		switch kind := parameters.In(len(values)); kind {
		case contextType:
			values = append(values, reflect.ValueOf(context.Background()))
		case loggerType:
			values = append(values, reflect.ValueOf(klog.Background()))
		default:
			panic(fmt.Sprintf("%v takes a %v that is not given", parameters, kind))
		}
	}
	for _, argument := range arguments {
		kind := parameters.In(len(values))
		value := reflect.Zero(kind)
		if argument != nil {
			value = reflect.ValueOf(argument).Convert(kind)
		}
		values = append(values, value)
	}
	var results []any
	var failure error
	for _, result := range callee.Call(values) {
		if result.Type() == errorType {
			failure, _ = result.Interface().(error)
			continue
		}
		results = append(results, result.Interface())
	}
	return results, failure
}
