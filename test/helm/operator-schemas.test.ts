import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { Ajv } from 'ajv'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { missingForChart, render } from './chart.js'

const directory = process.env.AKRI_TEST_PROMETHEUS_OPERATOR ?? ''
const missing =
  directory === '' ? 'needs AKRI_TEST_PROMETHEUS_OPERATOR, a directory' : missingForChart

interface CustomResource {
  readonly spec: {
    readonly names: { readonly kind: string }
    readonly versions: readonly [
      { readonly name: string; readonly schema: { readonly openAPIV3Schema: object } },
    ]
  }
}

/** Expressions of Go: `(?i)` has no form in JavaScript, and the chart has no such value. */
const pattern = (key: string, value: unknown) =>
  key === 'pattern' && typeof value === 'string' ? value.replace('(?i)', '') : closed(value)

/** The schema refuses what the API server would drop: a field that it does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const parts = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, pattern(key, value)]),
  )
  const isOpen = 'x-kubernetes-preserve-unknown-fields' in schema || !('properties' in schema)
  return isOpen ? parts : { ...parts, additionalProperties: false }
}

const everything = {
  prometheus: { enabled: true, rules: { enabled: true } },
  udev: { discovery: { enabled: true } },
}

describeUnless(missing, "the Prometheus operator's schemas", () => {
  const ajv = new Ajv({ strict: false, validateFormats: false })
  const validators = () =>
    new Map(
      readdirSync(directory)
        .map((file) => load(readFileSync(path.join(directory, file), 'utf8')) as CustomResource)
        .map(({ spec: { names, versions } }) => {
          const { openAPIV3Schema } = versions[0].schema
          const { properties, ...rest } = closed(openAPIV3Schema) as { properties: object }
          const schema = { ...rest, properties: { ...properties, metadata: {} } }
          return [`${versions[0].name} ${names.kind}`, ajv.compile(schema)] as const
        }),
    )

  it.each(['PodMonitor', 'PrometheusRule'])('accept each %s of the chart', async (kind) => {
    const objects = (await render(everything)).filter((object) => object.kind === kind)
    expect(objects).not.toEqual([])
    const validate = validators().get(`v1 ${kind}`) ?? expect.fail(`there is no ${kind}`)
    for (const object of objects) {
      expect(object.apiVersion).toBe('monitoring.coreos.com/v1')
      validate(object)
      expect(validate.errors, object.metadata.name).toBeNull()
    }
  })
})
