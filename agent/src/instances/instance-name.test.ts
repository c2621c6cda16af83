import type { ConfigurationName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { cdiName, deviceDigest, instanceName } from './instance-name.js'

const on = (node: string) => ({ shared: false, node: node as NodeName }) as const
const shared = { shared: true } as const

describe('the name of an Instance', () => {
  it.each([
    ['foo0', shared, '8120fe'],
    ['foo0', on('node-a'), 'fbcb99'],
    ['my_local_device', on('my_node'), 'e77db4'],
    ['my_shared_device', shared, '4294ea'],
    ['/devices/virtual/mem/null', on('node-a'), '2a91a0'],
  ])('R3 holds the digest that other implementations give: %s %o', (id, place, digest) => {
    expect(deviceDigest(id, place)).toBe(digest)
  })

  it('R1 is the Configuration, a dash and the digest; the CDI name says the same', () => {
    const configuration = 'akri-onvif' as ConfigurationName
    expect(instanceName(configuration, '8120fe')).toBe('akri-onvif-8120fe')
    expect(cdiName(configuration, '8120fe')).toBe('akri.sh/akri-onvif=8120fe')
  })
})
