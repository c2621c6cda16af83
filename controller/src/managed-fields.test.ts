import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { appliedFields, containsValue } from './managed-fields.js'

/** As API server 1.20 wrote them. */
const FIELDS = {
  'f:metadata': { 'f:labels': { 'f:controller': {} } },
  'f:spec': {
    'f:externalIPs': {},
    'f:ports': {
      'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:name': {}, 'f:nodePort': {}, 'f:port': {} },
      'k:{"port":53,"protocol":"UDP"}': { '.': {}, 'f:port': {}, 'f:protocol': {} },
    },
    'f:publishNotReadyAddresses': {},
    'f:selector': { 'f:a': {} },
  },
}
const APPLIED = {
  metadata: { labels: { controller: 'akri.sh' } },
  spec: {
    externalIPs: ['10.0.0.1'],
    ports: [
      { name: 'p', port: 80, nodePort: 0 },
      { port: 53, protocol: 'UDP' },
    ],
    publishNotReadyAddresses: false,
    selector: { a: 'b' },
  },
}

describe('the fields that the controller applied', () => {
  it('are those of its field manager, by server-side apply only', () => {
    const other = { manager: 'kubectl-patch', operation: 'Update', fieldsV1: { 'f:spec': {} } }
    const updated = {
      manager: 'akri-controller',
      operation: 'Update',
      fieldsV1: { 'f:status': {} },
    }
    const applied = { manager: 'akri-controller', operation: 'Apply', fieldsV1: FIELDS }
    expect(appliedFields({ metadata: { managedFields: [other, updated, applied] } })).toEqual(
      FIELDS,
    )
    expect(appliedFields({ metadata: { managedFields: [other, updated] } })).toEqual({})
  })

  it('are none for an object without valid managed fields', () => {
    for (const object of [
      undefined,
      {},
      { metadata: {} },
      { metadata: { managedFields: [{ fieldsV1: 7 }] } },
    ])
      expect(appliedFields(object)).toEqual({})
  })
})

describe('an applied object', () => {
  it('with a long list is compared by reading each key of the list once', () => {
    const env = Array.from({ length: 500 }, (_, index) => ({ name: `E${index}`, value: 'x' }))
    const keys = env.map(({ name }) => [
      `k:${JSON.stringify({ name })}`,
      { '.': {}, 'f:name': {}, 'f:value': {} },
    ])
    const parse = vi.spyOn(JSON, 'parse')
    const fields = { 'f:env': Object.fromEntries(keys) }
    expect(containsValue(fields, { env })).toBe(true)
    expect(parse).toHaveBeenCalledTimes(500)
    parse.mockRestore()
    expect(containsValue(fields, { env: [...env, { name: 'F', value: 'x' }] })).toBe(false)
    expect(containsValue(fields, { env: [{ name: 'E1', value: 'x', more: 1 }] })).toBe(false)
  })

  it('is unchanged while the field set contains all of it, whatever other managers add', () => {
    expect(containsValue(FIELDS, APPLIED)).toBe(true)
    expect(containsValue({ ...FIELDS, 'f:more': {} }, APPLIED)).toBe(true)
  })

  it.each([
    ['a value', { 'f:port': {} }, { type: 'ClusterIP' }],
    ['a key of a map', { 'f:selector': { 'f:c': {} } }, { selector: { a: 'b', c: 'd' } }],
    [
      'an element of a list',
      { 'f:ports': { 'k:{"port":80}': { '.': {}, 'f:port': {} } } },
      { ports: [{ port: 81 }] },
    ],
    [
      'an element with another second key',
      { 'f:ports': { 'k:{"port":80,"protocol":"UDP"}': { 'f:port': {}, 'f:protocol': {} } } },
      { ports: [{ port: 80, protocol: 'TCP' }] },
    ],
    [
      'a key of an element',
      { 'f:ports': { 'k:{"port":80}': { 'f:port': {} } } },
      { ports: [{ port: 80, name: 'p' }] },
    ],
    ['an element of a set', { 'f:finalizers': { 'v:"a"': {} } }, { finalizers: ['a', 'b'] }],
  ])('has changed if another manager took %s', (_what, fields, spec) => {
    expect(containsValue({ 'f:spec': { ...fields, 'f:other': {} } }, { spec })).toBe(false)
  })

  it.each([
    ['a set', { 'f:finalizers': { 'v:"a"': {}, 'v:"b"': {} } }, { finalizers: ['a', 'b'] }],
    ['a list that is one value', { 'f:args': {} }, { args: [{ a: 1 }, { a: 1 }] }],
    ['a map that is one value', { 'f:selector': {} }, { selector: { a: 'b', c: 'd' } }],
    ['empty values', {}, { nodeSelector: {}, args: [], type: null }],
    ['an object of empty values', {}, { resources: { limits: {}, requests: {} } }],
  ])('is unchanged if the field set contains %s', (_what, fields, spec) => {
    expect(containsValue({ 'f:spec': { ...fields, 'f:other': {} } }, { spec })).toBe(true)
  })

  it('gives no error for any field set', () => {
    fc.assert(
      fc.property(
        fc.object(),
        fc.object({ key: fc.constantFrom('f:a', '.', 'v:1', 'k:{"a":1}', 'k:{', 'f:b') }),
        (value, fields) => {
          expect(typeof containsValue(fields, value)).toBe('boolean')
        },
      ),
    )
  })
})
