import { describe, expect, it } from 'vitest'
import debugEcho from '../../schemas/debugEcho-details.json' with { type: 'json' }
import onvif from '../../schemas/onvif-details.json' with { type: 'json' }
import opcua from '../../schemas/opcua-details.json' with { type: 'json' }
import udev from '../../schemas/udev-details.json' with { type: 'json' }
import { EXISTING_DETAILS, existingDetailsTexts } from './existing-details.js'

const texts = (handler: string, details: object) =>
  existingDetailsTexts(handler, JSON.stringify(details)).map((text) =>
    text.replace('spec.discoveryHandler.discoveryDetails.', ''),
  )
const url = 'opc.tcp://10.0.0.1:4840/'

describe('details on the way to the existing system', () => {
  it('are known field by field, for each built-in handler', () => {
    for (const [handler, { properties }] of Object.entries({ debugEcho, onvif, opcua, udev }))
      expect(Object.keys(EXISTING_DETAILS[handler] ?? {}).sort(), handler).toEqual(
        Object.keys(properties).sort(),
      )
  })

  it.each<[string, object]>([
    ['debugEcho', { descriptions: ['foo0'] }],
    ['udev', { udevRules: ['SUBSYSTEM=="tty", ENV{ID_BUS}=="usb"', ''], permissions: 'rw' }],
    ['udev', { udevRules: ['ATTRS{a/b}!="0403|10c4" , KERNEL=="tty[0-9]*:{%}"'] }],
    ['onvif', { scopes: { items: ['a'], action: 'Exclude' }, uuids: null }],
    ['onvif', { probeAddresses: [], certificates: 'any', mediaProfiles: false, deviceId: 'url' }],
    ['onvif', { discoveryTimeoutSeconds: 2 }],
    ['opcua', { opcuaDiscoveryMethod: { standard: { discoveryUrls: [url] } } }],
    ['opcua', { serverDetails: false, trustAnyServer: false }],
    // The existing system has no such handler, so nothing is known of its details.
    ['mine', { probeAddresses: ['10.0.0.1'] }],
    ['constructor', { name: 'x' }],
  ])('are read there as here: %s %j', (handler, details) => {
    expect(texts(handler, details)).toEqual([])
  })

  it.each<[string, object, RegExp]>([
    ['onvif', { probeAddresses: ['10.0.0.1'] }, /^probeAddresses: .* ignores it: it finds no cam/],
    ['onvif', { interfaces: ['eth0'] }, /^interfaces: .* ignores it/],
    ['onvif', { certificates: 'verify' }, /^certificates: .* by http only/],
    ['onvif', { mediaProfiles: true }, /^mediaProfiles: .* ignores it/],
    ['onvif', { deviceId: 'uuid' }, /^deviceId: .* all Instances get other names/],
    ['onvif', { refreshSeconds: 60 }, /^refreshSeconds: .* ignores it/],
    ['onvif', { discoveryTimeoutSeconds: 0.5 }, /^discoveryTimeoutSeconds: .* cannot read it/],
    ['onvif', { scopes: {} }, /^scopes: .* cannot read it.* needs items/],
    ['onvif', { uuids: { items: ['a'], action: null } }, /^uuids: .* action is null/],
    ['opcua', { applicationNames: { items: null } }, /^applicationNames: .* needs items/],
    ['opcua', { opcuaDiscoveryMethod: { mdns: {} } }, /^opcuaDiscoveryMethod: .* only method/],
    ['opcua', { allowedNetworks: [] }, /^allowedNetworks: .* servers of all networks/],
    ['opcua', { serverDetails: true }, /^serverDetails: .* ignores it/],
    ['opcua', { allowUnencryptedPasswords: true }, /^allowUnencryptedPasswords: .* ignores it/],
    ['udev', { udevRules: ['', 'ATTR{product}=="A (B)"'] }, /^udevRules: .* rule 1 needs/],
    ['udev', { udevRules: ['KERNEL == "a"'] }, /^udevRules: .* rule 0 needs/],
  ])('are named if they are not: %s %j', (handler, details, text) => {
    expect(texts(handler, details)).toEqual([expect.stringMatching(text)])
  })

  it('are left to akri.js if they are no mapping in YAML', () => {
    for (const details of ['', 'x', '[', '{', 'a: [1, 2']) {
      expect(existingDetailsTexts('onvif', details)).toEqual([])
    }
  })
})
