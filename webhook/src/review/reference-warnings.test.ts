import { expect, it } from 'vitest'
import { referenceWarnings } from './reference-warnings.js'

const withProperties = (discoveryProperties: unknown) => ({
  spec: { discoveryHandler: { discoveryProperties } },
})
const secret = (namespace?: unknown) => ({
  name: 'p',
  valueFrom: { secretKeyRef: { name: 'cameras', key: 'k', ...(namespace ? { namespace } : {}) } },
})

it('a reference to the namespace of the Configuration needs no warning', () => {
  const properties = [{ name: 'a', value: 'b' }, secret(), secret('line')]
  expect(referenceWarnings(withProperties(properties), 'line')).toEqual([])
})

it('a reference to another namespace is a warning that names the annotation to write', () => {
  const map = { name: 'q', valueFrom: { configMapKeyRef: { name: 'm', namespace: 'hall' } } }
  expect(referenceWarnings(withProperties([secret(), map]), 'line')).toEqual([
    'refused unless annotation akri.sh/readable-from names line: ' +
      'spec.discoveryHandler.discoveryProperties[1]: ConfigMap hall/m',
  ])
  const many = Array.from({ length: 60_000 }, () => secret('hall'))
  expect(referenceWarnings(withProperties(many), 'line')).toEqual([
    'refused unless annotation akri.sh/readable-from names line: ' +
      'spec.discoveryHandler.discoveryProperties[0]: Secret hall/cameras, and 59999 more',
  ])
})

it.each<[unknown]>([
  [undefined],
  [null],
  ['x'],
  [{}],
  [[null, 1, 'x', { valueFrom: [] }, secret(1)]],
])('properties of a wrong type are not read: %j', (properties) => {
  expect(referenceWarnings(withProperties(properties), 'line')).toEqual([])
})
