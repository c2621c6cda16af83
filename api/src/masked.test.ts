import { describe, expect, it } from 'vitest'
import { maskObject, maskProperties } from './masked.js'
import type { ConfigurationName } from './names.js'
import type { Configuration } from './types.js'

function configuration(spec: object, annotations?: Record<string, string>): Configuration {
  const object = {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: 'lab' as ConfigurationName, namespace: 'plant', annotations },
    spec,
  }
  return object as unknown as Configuration
}

const handlerOf = (discoveryHandler: object) =>
  maskObject(configuration({ discoveryHandler })).spec.discoveryHandler

describe('an object for people', () => {
  it('masks passwords among the discovery properties, and no reference to a Secret', () => {
    const reference = {
      name: 'password_cam',
      valueFrom: { secretKeyRef: { name: 'cam-secret', key: 'password' } },
    }
    const discoveryProperties = [
      { name: 'username_default', value: 'admin' },
      { name: 'password_default', value: 'hunter2' },
      reference,
    ]
    expect(handlerOf({ name: 'onvif', discoveryProperties })).toEqual({
      name: 'onvif',
      discoveryProperties: [
        { name: 'username_default', value: 'admin' },
        { name: 'password_default', value: '***' },
        reference,
      ],
    })
  })

  it('masks what lists of credentials refer to, whatever its name', () => {
    const discoveryProperties = [
      { name: 'device_credential_ref_list', value: '["cameras"]' },
      { name: 'cameras', value: '{"default":{"username_ref":"u","password_ref":"p"}}' },
      { name: 'u', value: 'admin' },
      { name: 'p', value: 'hunter2' },
      { name: 'interval', value: '5' },
    ]
    const shown = JSON.stringify(handlerOf({ name: 'onvif', discoveryProperties }))
    expect(shown).not.toMatch(/hunter2/)
    expect(shown).toContain('{"name":"interval","value":"5"}')
  })

  it.each([
    ['YAML', 'url: http://a\nauth:\n  password: |\n    hunter2\n    x\n'],
    ['JSON', '{"auth": {"password": "hunter2"}, "tokens": ["hunter2"]}'],
    ['YAML that cannot be read', 'url: [\npassword: hunter2'],
    ['a number', 'password: 0xhunter2\napiKey: 4711'],
    ['the password of a URL', 'url: mqtt://me:hunter2@broker'],
    ['an alias in itself', '&a\npassword: hunter2\nself: *a'],
  ])('masks secrets in the details: %s', (_, discoveryDetails) => {
    const shown = JSON.stringify(handlerOf({ name: 'http', discoveryDetails }))
    expect(shown).not.toMatch(/hunter2|4711/)
    expect(shown).toContain('***')
  })

  it('keeps details without a secret as they are', () => {
    const discoveryDetails = '# a comment\nudevRules:   ["KERNEL==\\"tokens\\""]\npassword_ref: x\n'
    expect(handlerOf({ name: 'udev', discoveryDetails })).toMatchObject({ discoveryDetails })
  })

  it('masks variables of brokers and annotations, and keeps names of Secrets', () => {
    const container = {
      name: 'token-reader',
      env: [{ name: 'DB_PASSWORD', value: 'hunter2' }],
      image: 'x',
    }
    const volumes = [{ name: 'v', secret: { secretName: 'cam' } }]
    const spec = {
      brokerSpec: { brokerPodSpec: { containers: [container], volumes } },
      brokerProperties: { CAM_PASSWORD: 'hunter2', CAM_URL: 'rtsp://me:hunter2@cam/' },
    }
    const before = { 'last-applied-configuration': JSON.stringify(spec) }
    const { metadata, spec: after } = maskObject(configuration(spec, before))
    expect(JSON.stringify([metadata, after])).not.toMatch(/hunter2/)
    expect(after).toMatchObject({
      brokerSpec: {
        brokerPodSpec: { containers: [{ name: 'token-reader', image: 'x' }], volumes },
      },
      brokerProperties: { CAM_PASSWORD: '***', CAM_URL: 'rtsp://me:***@cam/' },
    })
  })

  it('keeps the claims of slots whose names look like secrets', () => {
    const spec = { deviceUsage: { 'token-8120fe-0': 'node-a' } }
    expect(maskObject(configuration(spec)).spec).toEqual(spec)
  })
})

it('masks secret properties of a device', () => {
  expect(maskProperties({ SENSOR_TOKEN: 'x', SENSOR_URL: 'http://a', MAKE: 'Token Ring' })).toEqual(
    {
      SENSOR_TOKEN: '***',
      SENSOR_URL: 'http://a',
      MAKE: 'Token Ring',
    },
  )
})

it.each([
  ['points', 'a.'.repeat(32_000)],
  ['schemes', '://a:'.repeat(12_000)],
  ['users', `://a:${'b@'.repeat(30_000)}`],
  ['words', `token ${'a'.repeat(60_000)}`],
])('takes time in proportion to a text of a device: %s', (_, text) => {
  // A pattern that looks at a text again from each place would take minutes for all of them.
  for (let times = 0; times < 20; times++) maskProperties({ TEXT: text })
})
