import type { ConfigurationName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { cdiName, deviceDigest, instanceName } from './instance-name.js'

const on = (node: string) => ({ shared: false, node: node as NodeName }) as const
const shared = { shared: true } as const

describe('the name of an Instance', () => {
  it.each([
    ['foo0', shared, '8120fe'],
    ['foo1', shared, 'a19705'],
    ['bar0', shared, 'd46b65'],
    ['bar1', shared, 'ab76e6'],
    ['foo0', on('node-a'), 'fbcb99'],
    ['foo1', on('node-a'), 'd2981e'],
    ['my_local_device', on('my_node'), 'e77db4'],
    ['my_local_device', on('my_other_node'), '099763'],
    ['my_shared_device', shared, '4294ea'],
    ['dev_1', shared, 'cb2ad7'],
    ['dev_2', shared, '7bbc11'],
    ['foo0', on('kagold-thinkpad-x1-carbon-6th'), '489660'],
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
