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

  it('refuse what is no object of texts, and name no value', () => {
    const fromTexts = (texts: unknown) =>
      Reflect.apply(DiscoveryProperties.fromTexts, DiscoveryProperties, [texts])
    expect(() => fromTexts({ token: undefined })).toThrow(
      /^property "token" is of type undefined; it must be a string$/,
    )
    expect(() => fromTexts({ pin: 1234 })).toThrow(/^property "pin" is of type number; /)
    expect(() => fromTexts(new Map([['token', 'x']]))).toThrow(/^properties are an object of texts/)
  })
})
