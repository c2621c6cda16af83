import { describe, expect, it } from 'vitest'
import { shownItem } from '../../server/shown-item.js'
import { deviceNamed } from '../../testing/memory-source.js'
import { findDevices, propertySearch } from './device-search.js'
import type { ShownDevice } from './shown.js'

function shown(...options: Parameters<typeof deviceNamed>): ShownDevice {
  const item = shownItem({ kind: 'device', object: deviceNamed(...options) })
  if (item.kind !== 'device') throw new TypeError(item.kind)
  return item
}

const camera = shown(
  'cameras-000001',
  { ONVIF_DEVICE_MANUFACTURER: 'Acme', ONVIF_DEVICE_MODEL: 'Dome 10' },
  { configuration: 'cameras', capacity: 2, used: 2 },
)
const other = shown(
  'cameras-000002',
  { ONVIF_DEVICE_MANUFACTURER: 'Acme', ONVIF_DEVICE_MODEL: 'Dome 9', NOTE: 'Acme=Dome' },
  { configuration: 'cameras', capacity: 4, used: 1 },
)
const jammed = shown(
  'printers-000001',
  { MDNS_SERVICE_NAME: 'Hall 1', MDNS_SERVICE_TYPE: '_ipp._tcp' },
  {
    configuration: 'printers',
    status: {
      brokerInfo: { toner: 'low' },
      conditions: [
        {
          type: 'DeviceProblem',
          status: 'True',
          reason: 'ReportedByHandler',
          message: 'paper jam',
          lastTransitionTime: '',
        },
      ],
    },
  },
)
const ALL = [camera, other, jammed]

describe('the search for devices', () => {
  it.each([
    ['', [other, camera, jammed]],
    ['dome', [other, camera]],
    ['ACME 10', [camera]],
    ['"hall 1"', [jammed]],
    ['toner=low', [jammed]],
    ['printers-000001', [jammed]],
    ['MDNS_SERVICE_TYPE=_ipp._tcp', [jammed]],
    ['MDNS_SERVICE_NAME="Hall 1"', [jammed]],
    ['ONVIF_DEVICE_MODEL=9', [other]],
    ['ONVIF_DEVICE_MODEL=9 10', []],
    ['Acme=Dome', [other]],
    ['constructor=x', []],
    ['"', [other, camera, jammed]],
    ['nothing like it', []],
  ])('finds what matches all words of %j, by name', (q, found) => {
    expect(findDevices(ALL, { q })).toEqual(found)
  })

  it.each([
    ['free', [other, jammed]],
    ['used', [other, camera]],
    ['problem', [jammed]],
  ])('chooses devices by state: %s', (state, found) => {
    expect(findDevices(ALL, { state })).toEqual(found)
  })

  it('chooses the devices of a Configuration', () => {
    expect(findDevices(ALL, { configuration: 'plant/printers' })).toEqual([jammed])
  })

  it('orders devices by their free slots, and those with as many by name', () => {
    expect(findDevices(ALL, { sort: 'free' })).toEqual([other, jammed, camera])
  })

  it('finds a device by the link of each of its properties', () => {
    for (const [name, value] of Object.entries(jammed.object.spec.brokerProperties))
      expect(findDevices(ALL, { q: propertySearch(name, value) })).toEqual([jammed])
  })
})
