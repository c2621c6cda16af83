import fc from 'fast-check'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../generated/bundled-types.js'
import { checkType } from './check-type.js'
import { fieldType, type KubernetesTypes, type Root } from './kubernetes-types.js'

function problems(root: Root, yaml: string, limit = 100) {
  return checkType(load(yaml), { types: BUNDLED_TYPES, root, path: 'spec', limit }).map(
    ({ path, message }) => `${path}: ${message}`,
  )
}

describe('a spec of Kubernetes', () => {
  it.each<[string, Root, string]>([
    ['ports 0', 'serviceSpec', '{ports: [{port: 0, targetPort: 0}, {port: 0, targetPort: http}]}'],
    [
      'null, which is as good as nothing',
      'podSpec',
      '{containers: [{name: b, image: null, env: null}], nodeSelector: {a: null}}',
    ],
    [
      'quantities',
      'podSpec',
      '{containers: [], overhead: {a: 1, b: 0.5, c: "1e3", d: 500m, e: 1.5Gi, f: -1, g: .5, ' +
        'h: 100n}}',
    ],
    [
      'anything in a field that may hold anything',
      'podSpec',
      '{containers: [], volumes: [{name: v, csi: {driver: d}}]}',
    ],
  ])('can have %s', (_what, root, yaml) => {
    expect(problems(root, yaml)).toEqual([])
  })

  it.each<[string, Root, string, string]>([
    [
      'an unknown field',
      'podSpec',
      '{containers: [], xUnknownSyntheticField: 1}',
      'spec.xUnknownSyntheticField: there is no such field in Kubernetes v1.34.0',
    ],
    [
      'a field that is misspelt',
      'podSpec',
      '{containers: [{name: b, resources: {limit: {cpu: 1}}}]}',
      'spec.containers[0].resources.limit: there is no such field; did you mean limits?',
    ],
    [
      'a field that belongs further out',
      'podSpec',
      '{containers: [{name: b, nodeSelector: {}}]}',
      'spec.containers[0].nodeSelector: there is no such field at this place; it belongs to spec',
    ],
    [
      'a field that belongs further in',
      'jobSpec',
      '{template: {}, containers: []}',
      'spec.containers: there is no such field at this place; it belongs to template.spec',
    ],
    [
      'a field that belongs to items of a list',
      'serviceSpec',
      '{targetPort: 80}',
      'spec.targetPort: there is no such field at this place; it belongs to ports[]',
    ],
    [
      'a text for a whole number',
      'serviceSpec',
      '{ports: [{port: "80"}]}',
      'spec.ports[0].port: write a whole number of 32 bits, without quotes; it is "80"',
    ],
    [
      'more than 32 bits',
      'jobSpec',
      '{template: {}, parallelism: 4294967296}',
      'spec.parallelism: write a whole number of 32 bits, without quotes; it is 4294967296',
    ],
    [
      'a number for a text',
      'podSpec',
      '{containers: [{name: b, env: [{name: A, value: 1}]}]}',
      'spec.containers[0].env[0].value: write a text (in quotes, ' +
        'if it looks like something else); it is 1',
    ],
    [
      'a text for a truth',
      'podSpec',
      '{containers: [], hostNetwork: "yes"}',
      'spec.hostNetwork: write true or false, without quotes; it is "yes"',
    ],
    [
      'what is no quantity',
      'podSpec',
      '{containers: [{name: b, resources: {limits: {memory: 64 MB}}}]}',
      'spec.containers[0].resources.limits.memory: ' +
        'write a quantity, such as 1, 500m or 64Mi; it is "64 MB"',
    ],
    [
      'a mapping for a list',
      'podSpec',
      '{containers: {name: b}}',
      'spec.containers: write a list of mappings; it is a mapping',
    ],
    [
      'a list for a mapping',
      'podSpec',
      '{containers: [{name: b, resources: []}]}',
      'spec.containers[0].resources: write a mapping with fields such as claims; it is a list',
    ],
    [
      'a list for a map',
      'podSpec',
      '{containers: [], nodeSelector: [a]}',
      'spec.nodeSelector: write a mapping of names to texts; it is a list',
    ],
    [
      'a number as a password, which no message shows',
      'podSpec',
      '{containers: [{name: b, env: [{name: DB_PASSWORD, value: 4711}]}]}',
      'spec.containers[0].env[0].value: write a text (in quotes, ' +
        'if it looks like something else); it is ***',
    ],
    [
      'null as an item',
      'podSpec',
      '{containers: [null]}',
      'spec.containers[0]: it is null; write a mapping, or leave the item out',
    ],
    [
      'no containers',
      'podSpec',
      '{hostNetwork: true}',
      'spec.containers: it is missing; write a list',
    ],
    [
      'a key that is no name',
      'podSpec',
      '{containers: [], nodeSelector: {"a.b/c": 1}}',
      'spec.nodeSelector["a.b/c"]: write a text (in quotes, ' +
        'if it looks like something else); it is 1',
    ],
  ])('R66 must not have %s', (_what, root, yaml, problem) => {
    expect(problems(root, yaml)).toEqual([problem])
  })

  it('can omit a field that akri.js fills in', () => {
    const check = (filledIn: string[]) =>
      checkType(
        { template: {} },
        { types: BUNDLED_TYPES, root: 'deploymentSpec', path: 'spec', filledIn, limit: 9 },
      )
    expect(check([])).toEqual([
      { path: 'spec.selector', message: 'it is missing; write a mapping' },
    ])
    expect(check(['selector'])).toEqual([])
  })

  it('is checked until the limit of problems', () => {
    const containers = Array.from({ length: 1000 }, () => ({ nonsense: 1 }))
    expect(
      checkType({ containers }, { types: BUNDLED_TYPES, root: 'podSpec', path: '', limit: 5 }),
    ).toHaveLength(5)
  })

  it('is right if each field has a value of its type', () => {
    const spec = fc.constantFrom<Root>('podSpec', 'jobSpec', 'deploymentSpec', 'serviceSpec')
    const sample = spec.chain((root) =>
      fittingValue(BUNDLED_TYPES.roots[root], BUNDLED_TYPES, 6).map((value) => ({ root, value })),
    )
    fc.assert(
      fc.property(sample, ({ root, value }) => {
        expect(checkType(value, { types: BUNDLED_TYPES, root, path: 'spec', limit: 100 })).toEqual(
          [],
        )
      }),
    )
  })

  it('never makes the check throw', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom<Root>('podSpec', 'jobSpec', 'serviceSpec'),
        (value, root) => {
          for (const { path, message } of checkType(value, {
            types: BUNDLED_TYPES,
            root,
            path: 'spec',
            limit: 100,
          })) {
            expect(path).toMatch(/^spec/)
            expect(message).not.toBe('')
          }
        },
      ),
    )
  })
})

/** Values that fit a type. */
function fittingValue(text: string, types: KubernetesTypes, depth: number): fc.Arbitrary<unknown> {
  const type = fieldType(text, types)
  switch (type.kind) {
    case 'list':
      return fc.array(fittingValue(type.of, types, depth - 1), { maxLength: 2 })
    case 'map':
      return fc.dictionary(fc.string(), fittingValue(type.of, types, depth - 1), { maxKeys: 2 })
    case 'object': {
      const required = Object.keys(type.fields).filter((key) => type.fields[key]?.endsWith('!'))
      const given = Object.entries(type.fields).filter(
        ([key]) => depth > 0 || required.includes(key),
      )
      const fields = Object.fromEntries(
        given.map(([key, inner]) => [key, fittingValue(inner, types, depth - 1)]),
      )
      return fc.record(fields, { requiredKeys: required })
    }
    case 'scalar':
      return {
        any: fc.jsonValue(),
        string: fc.string(),
        boolean: fc.boolean(),
        number: fc.double({ noNaN: true, noDefaultInfinity: true }),
        int32: fc.integer(),
        int64: fc.maxSafeInteger(),
        quantity: fc.oneof(fc.integer(), fc.constantFrom('1', '500m', '64Mi', '1e3')),
        intOrString: fc.oneof(fc.integer(), fc.string()),
      }[type.scalar]
  }
}
