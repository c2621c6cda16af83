import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { alternativeName, objectName, serviceName, specHash } from './labels.js'

describe('names', () => {
  it('C9 of Services begin with a letter and are one label of a host name', () => {
    expect(serviceName('cam-8120fe-svc')).toBe('cam-8120fe-svc')
    expect(serviceName('4k.cam-8120fe-svc')).toBe('akri-4k-cam-8120fe-svc')
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?$/), (text) => {
        expect(serviceName(`${text}-svc`)).toMatch(/^(?=.{1,63}$)[a-z]([-a-z0-9]*[a-z0-9])?$/)
      }),
    )
  })

  it('differ for different texts', () => {
    const long = 'x'.repeat(300)
    expect(objectName(`${long}a`)).not.toBe(objectName(`${long}b`))
    expect(alternativeName('cam', 'uid-1')).not.toBe(alternativeName('cam', 'uid-2'))
    expect(alternativeName(long, 'uid-1')).not.toBe(alternativeName(long, 'uid-2'))
  })
})

describe('the hash of a spec', () => {
  it('depends on the content, and not on the order of keys', () => {
    expect(specHash({ a: 1, b: [{ c: null, d: 'x' }] })).toBe(
      specHash({ b: [{ d: 'x', c: null }], a: 1 }),
    )
    expect(specHash({ a: undefined, b: 1 })).toBe(specHash({ b: 1 }))
    const specs = fc.object({
      key: fc.constantFrom('a', 'b', 'c'),
      maxDepth: 2,
      values: [fc.nat(3), fc.constant('x'), fc.constant(null)],
    })
    fc.assert(
      fc.property(specs, specs, (first, second) => {
        const same = JSON.stringify(sorted(first)) === JSON.stringify(sorted(second))
        expect(specHash(first) === specHash(second)).toBe(same)
      }),
    )
  })
})

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  )
}
