import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { onvifDetails } from '../../handlers/onvif/src/details.js'
import { opcuaDetails } from '../../handlers/opcua/src/details.js'
import { udevDetails } from '../../handlers/udev/src/details.js'
import { readChart } from './chart.js'

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
}

const schema = JSON.parse(readChart('values.schema.json')) as Schema

const schemaAt = (...keys: string[]) =>
  keys.reduce((at: Schema | undefined, key) => at?.properties?.[key], schema) ??
  expect.fail(`there is no ${keys.join('.')}`)
const keysOf = ({ properties = {} }: Schema) => Object.keys(properties).sort()

describe('values.schema.json', () => {
  it.each([
    ['udev', udevDetails, []],
    // The others are values of the existing chart.
    ['onvif', onvifDetails, ['scope']],
    ['opcua', opcuaDetails, ['discoveryUrls']],
  ] as const)('knows the discoveryDetails of the handler %s', (name, { shape }, others) => {
    const known = keysOf(schemaAt(name, 'configuration', 'discoveryDetails'))
    expect(known).toEqual([...Object.keys(shape), ...others].sort())
  })

  it.each(['debugEcho', 'onvif', 'opcua', 'udev'])(
    'has the bounds that the handler %s has for its details',
    (name) => {
      const file = path.join(import.meta.dirname, '../../cli/schemas', `${name}-details.json`)
      const boundsOf = (at: unknown) =>
        ['minimum', 'maximum', 'minItems', 'maxItems', 'minLength', 'pattern', 'items'].map(
          (key) => [key, key === 'items' ? boundsOfItems(at) : Reflect.get(Object(at), key)],
        )
      const boundsOfItems = (at: unknown) => {
        const items = Reflect.get(Object(at), 'items')
        return ['minLength', 'pattern'].map((key) => [key, Reflect.get(Object(items), key)])
      }
      const { properties } = JSON.parse(readFileSync(file, 'utf8')) as Required<Schema>
      for (const [key, inner] of Object.entries(properties))
        expect([key, boundsOf(schemaAt(name, 'configuration', 'discoveryDetails', key))]).toEqual([
          key,
          boundsOf(inner),
        ])
    },
  )

  it('rejects unknown names in all mappings, except those with free names', () => {
    const open: string[] = []
    const visit = (at: unknown, path: string) => {
      if (typeof at !== 'object' || at === null) return
      const isMap = [Reflect.get(at, 'type')].flat().includes('object')
      if (isMap && [undefined, true].includes(Reflect.get(at, 'additionalProperties')))
        open.push(path)
      for (const [key, inner] of Object.entries(at)) visit(inner, `${path}/${key}`)
    }
    visit(schema, '')
    expect(open.sort()).toEqual([
      // Fields of Kubernetes.
      '/definitions/brokerJob/properties/securityContext',
      '/definitions/brokerJob/properties/volumeMounts/items',
      '/definitions/brokerJob/properties/volumes/items',
      '/definitions/brokerPod/properties/securityContext',
      '/definitions/brokerPod/properties/volumeMounts/items',
      '/definitions/brokerPod/properties/volumes/items',
      '/definitions/openMap',
      '/definitions/variable',
      '/properties/global',
      '/properties/webhookConfiguration/properties/networkPolicy/properties/from/items',
    ])
  })
})
