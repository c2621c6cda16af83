import { describe, expect, it } from 'vitest'
import { isSecretAt, isSecretName, maskUrls } from './secrets.js'

describe('isSecretName', () => {
  it.each([
    'password_default',
    'password_10_0_0_7',
    'password_urn_plc1_MixerType',
    'password_host_name',
    'password_hostname',
    'password_profile',
    'device_credential_list',
    'tokenprofile',
    'DB_PASSWD',
    'apiKey',
    'API_KEY',
    'private-key',
    'accessToken',
    'clientSecret',
    'passphrase',
    'tokens',
    'SENSOR_TOKEN',
    'USER_TOKENS',
    'CAMERA_PROFILE_TOKEN',
    'OPCUA_USER_TOKEN',
    'password_length',
    'password_types',
  ])('recognises %s', (name) => expect(isSecretName(name)).toBe(true))

  it.each([
    'username_default',
    'OPCUA_DEFAULT_CREDENTIAL',
    'password_ref',
    'secretKeyRef',
    'secretName',
    'TOKEN_FILE',
    'SECRET_NAME',
    'token-url',
    'tokenURL',
    'secretRefs',
    'password_file',
    'UDEV_DEVNODE',
    'OPCUA_USER_TOKENS',
    'ONVIF_DEVICE_PROFILE_0_TOKEN',
    'ONVIF_DEVICE_PROFILE_15_TOKEN',
    'TOKEN_TYPES',
    'tokenCount',
    'PASSWORD_POLICY',
    'secret-names',
    'passwordRequired',
    'SECRETARY',
    'tokenizer',
    'key',
    'passage',
  ])('leaves %s readable', (name) => expect(isSecretName(name)).toBe(false))
})

describe('isSecretAt', () => {
  it('looks at the names of the path and at the name beside a value', () => {
    const root = [
      { name: 'password_default', value: 1 },
      { name: 'interval', value: 1 },
    ]
    expect(isSecretAt({}, ['auth', 'password'])).toBe(true)
    expect(isSecretAt({}, ['sensors', 0, 'user'])).toBe(false)
    expect(isSecretAt({}, ['credentials', 0, 'user'])).toBe(true)
    expect([isSecretAt(root, [0, 'value']), isSecretAt(root, [1, 'value'])]).toEqual([true, false])
  })
})

it('masks passwords of URLs', () => {
  expect(maskUrls('a rtsp://me:hunter2@cam/1 b http://[::1]:80/@x mqtt://u:p%40@x@h:1')).toBe(
    'a rtsp://me:***@cam/1 b http://[::1]:80/@x mqtt://u:***@h:1',
  )
})
