import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { expect, it } from 'vitest'
import { cameraCredentials } from './credentials.js'

const A = '5f5a69c2-e0ae-504f-829b-00fcdab169cc'
const read = (texts: Record<string, string>) =>
  cameraCredentials(DiscoveryProperties.fromTexts(texts), silentLogger)

it('credentials belong to UUIDs, in either case; names of properties have _ instead of -', () => {
  const listed = {
    device_credential_list: '["l"]',
    l: JSON.stringify({ [A.toUpperCase()]: { username: 'a' } }),
  }
  const withPrefix = {
    device_credential_list: '["l"]',
    l: JSON.stringify({ [`urn:uuid:${A}`]: { username: 'a' } }),
  }
  const named = { [`username_${A.replaceAll('-', '_')}`]: 'a' }
  for (const texts of [listed, withPrefix, named]) {
    for (const uuid of [A, A.toUpperCase()])
      expect(read(texts).for(uuid)).toMatchObject({ username: 'a', password: '' })
    expect(read(texts).for('6821dc67-8438-5588-1547-4d1349048438')).toBeUndefined()
  }
})
