import { describe, expect, it } from 'vitest'
import { describeServer } from './device-description.js'

const application = { applicationUri: 'urn:plc1', applicationName: 'Mixer', productUri: '' }

describe('the device of a server', () => {
  it('has the discovery URL and all usable values', () => {
    const found = { discoveryUrl: 'opc.tcp://10.0.0.7:4840/UA' }
    const sessionProperties = {
      OPCUA_SERVER_STATE: 'Running',
      OPCUA_MANUFACTURER: `x${'y'.repeat(512)}`,
      OPCUA_BUILD_NUMBER: '7\u001b[2J',
    }
    expect(describeServer(found, application, { sessionProperties })).toEqual({
      id: 'opc.tcp://10.0.0.7:4840/UA',
      properties: {
        OPCUA_DISCOVERY_URL: 'opc.tcp://10.0.0.7:4840/UA',
        OPCUA_APPLICATION_URI: 'urn:plc1',
        OPCUA_APPLICATION_NAME: 'Mixer',
        OPCUA_SERVER_STATE: 'Running',
      },
    })
  })

  it('has the addresses of an announced server, for brokers that cannot resolve its name', () => {
    const found = {
      discoveryUrl: 'opc.tcp://plc1.local:4840',
      addresses: ['10.0.0.7', 'fd00::7', 'fe80::7%eth0'],
    }
    expect(describeServer(found, application, {}).properties?.OPCUA_SERVER_ADDRESSES).toBe(
      '10.0.0.7,fd00::7',
    )
  })
})
