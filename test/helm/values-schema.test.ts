import { readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import { controllerOptions } from '../../controller/src/program/controller-options.js'
import { onvifDetails } from '../../handlers/onvif/src/details.js'
import { opcuaDetails } from '../../handlers/opcua/src/details.js'
import { udevDetails } from '../../handlers/udev/src/details.js'
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'
import { readChart } from './chart.js'

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly $ref?: string
  readonly definitions?: Readonly<Record<string, Schema>>
}

const schema = JSON.parse(readChart('values.schema.json')) as Schema

const schemaAt = (...keys: string[]) =>
  keys.reduce((at: Schema | undefined, key) => at?.properties?.[key], schema) ??
  expect.fail(`there is no ${keys.join('.')}`)
const keysOf = ({ properties = {} }: Schema) => Object.keys(properties).sort()

describe('values.schema.json', () => {
  it.each([
    // Options that the chart itself sets, and directories that are mounted at their default paths.
    [
      'agent',
      commanderOptions(agentOptions),
      [
        'AGENT_NODE_NAME',
        'AKRI_COMPATIBILITY',
        'AKRI_CRI_SOCKET',
        'AKRI_HANDLERS',
        'AKRI_HANDLERS_GROUP',
        'AKRI_HANDLER_ADDRESSES',
        'AKRI_HANDLER_DEVICES',
        'AKRI_HANDLER_ENVIRONMENT',
        'AKRI_HANDLER_MOUNTS',
        'AKRI_STATE_DIRECTORY',
        'DISCOVERY_HANDLERS_DIRECTORY',
        'KUBECONFIG',
        'KUBELET_PLUGIN_DIRECTORY',
        'KUBELET_POD_RESOURCES_SOCKET',
        'LOG_LEVEL',
        'METRICS_PORT',
        'POD_NAME',
        'POD_NAMESPACE',
      ],
    ],
    [
      'controller',
      commanderOptions(controllerOptions),
      [
        'AKRI_COMPATIBILITY',
        'KUBECONFIG',
        'LOG_LEVEL',
        'METRICS_PORT',
        'POD_NAME',
        'POD_NAMESPACE',
      ],
    ],
    [
      'webhookConfiguration',
      commanderOptions(webhookOptions),
      [
        'AKRI_CERTIFICATE_SECRET',
        'AKRI_COMPATIBILITY',
        'AKRI_FAILURE_POLICY',
        'AKRI_HANDLERS',
        'AKRI_TLS_CRT_FILE',
        'AKRI_TLS_KEY_FILE',
        'AKRI_WEBHOOK_CONFIGURATION',
        'AKRI_WEBHOOK_PORT',
        'AKRI_WEBHOOK_SERVICE',
        'KUBECONFIG',
        'LOG_LEVEL',
        'METRICS_PORT',
        'POD_NAMESPACE',
      ],
    ],
  ] as const)(
    'knows all options of %s, except those with values of their own',
    (name, options, others) => {
      const known = options.map(({ envVar }) => envVar ?? '').sort()
      expect([...keysOf(schemaAt(name, 'env')), ...others].sort()).toEqual(known)
    },
  )

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

  it('admits null for each value', () => {
    const others: string[] = []
    const visit = (at: Schema, path: string) => {
      const [, name = ''] = /^#\/definitions\/(\w+)$/.exec(at.$ref ?? '') ?? []
      const { type, enum: texts, anyOf = [], properties = {} } = schema.definitions?.[name] ?? at
      const types = [type, ...anyOf.map((one) => one.type)].flat()
      const admitted = texts?.includes(null) ?? (types.includes('null') || name === 'existing')
      if (!admitted) others.push(path)
      for (const [key, inner] of Object.entries(properties)) visit(inner, `${path}.${key}`)
    }
    for (const [key, inner] of Object.entries(schema.properties ?? {})) visit(inner, key)
    expect(others).toEqual([])
  })

  it('is valid for all versions of Helm, and all its references exist', () => {
    expect(Reflect.get(schema, '$schema')).toBe('http://json-schema.org/draft-07/schema#')
    const names = [...JSON.stringify(schema).matchAll(/"\$ref":"#\/definitions\/(\w+)"/g)].map(
      ([, name]) => name,
    )
    expect([...new Set(names)].sort()).toEqual(Object.keys(schema.definitions ?? {}).sort())
  })
})
