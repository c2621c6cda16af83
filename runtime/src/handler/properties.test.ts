import { propertiesFromWire, propertiesToWire } from '@akrijs/sdk/host'
import { describe, expect, it } from 'vitest'
import { DiscoveryProperties } from './properties.js'

describe('DiscoveryProperties', () => {
  it('distinguishes no property, no value and an empty value, also over the wire', () => {
    const bytes = new Uint8Array([0xff])
    const sent = new DiscoveryProperties([
      ['none', undefined],
      ['empty', new Uint8Array()],
      ['bytes', bytes],
    ])
    const properties = propertiesFromWire(propertiesToWire(sent))
    expect([properties.has('none'), properties.get('none'), properties.has('other')]).toEqual([
      true,
      undefined,
      false,
    ])
    expect(properties.text('empty')).toBe('')
    expect(properties.text('bytes')).toBeUndefined()
    expect(Buffer.from(properties.get('bytes') ?? []).equals(bytes)).toBe(true)
  })
})
