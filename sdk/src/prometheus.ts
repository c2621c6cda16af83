/// <reference path="./prom-client-parts.d.ts" />
// The parts of prom-client that are used. All of it would bring a TLS client, node:cluster and the API of OpenTelemetry into each
// program: 3 MB of memory that no other process shares.
import type * as prometheus from 'prom-client'
import counter from 'prom-client/lib/counter.js'
import gauge from 'prom-client/lib/gauge.js'
import histogram from 'prom-client/lib/histogram.js'
import registry from 'prom-client/lib/registry.js'

export const Counter: typeof prometheus.Counter = counter
export type Counter<Label extends string = string> = prometheus.Counter<Label>
export const Gauge: typeof prometheus.Gauge = gauge
export type Gauge<Label extends string = string> = prometheus.Gauge<Label>
export const Histogram: typeof prometheus.Histogram = histogram
export type Histogram<Label extends string = string> = prometheus.Histogram<Label>
export const Registry: typeof prometheus.Registry = registry
export type Registry = prometheus.Registry
