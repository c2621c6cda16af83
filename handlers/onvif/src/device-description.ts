import type { Device } from '@akrijs/sdk'
import type { OnvifDetails } from './details.js'
import type { Camera } from './discovery/camera-set.js'
import { cameraText } from './xml/camera-text.js'

/** The limit of the scopes that containers get, in characters. */
const MAX_SCOPES_LENGTH = 2048
/** The limit of media profiles that containers get. */
const MAX_PROFILES = 16

/** A camera as a device for the agent. */
export function describeCamera(
  camera: Camera,
  { deviceId }: Pick<OnvifDetails, 'deviceId'>,
): Device {
  return {
    id: deviceId === 'uuid' ? camera.uuid : `${camera.url}-${camera.uuid}`,
    properties: propertiesOf(camera),
  }
}

function propertiesOf({ uuid, url, scopes, facts }: Camera): Record<string, string> {
  const properties: Record<string, string | undefined> = {
    ONVIF_DEVICE_SERVICE_URL: url,
    ONVIF_DEVICE_UUID: uuid,
    ONVIF_DEVICE_IP_ADDRESS: facts.ipAddress,
    ONVIF_DEVICE_MAC_ADDRESS: facts.macAddress,
    ONVIF_DEVICE_MANUFACTURER: facts.manufacturer,
    ONVIF_DEVICE_MODEL: facts.model,
    ONVIF_DEVICE_FIRMWARE_VERSION: facts.firmware,
    ONVIF_DEVICE_SERIAL_NUMBER: facts.serialNumber,
    ONVIF_DEVICE_HARDWARE_ID: facts.hardwareId,
    ONVIF_DEVICE_SCOPES: joined(facts.scopes ?? scopes),
    ONVIF_DEVICE_AUTHENTICATION: facts.authentication,
  }
  for (const [index, profile] of (facts.profiles ?? []).slice(0, MAX_PROFILES).entries()) {
    const prefix = `ONVIF_DEVICE_PROFILE_${index}`
    properties[`${prefix}_TOKEN`] = profile.token
    properties[`${prefix}_NAME`] = profile.name
    properties[`${prefix}_STREAM_URI`] = profile.streamUri
    properties[`${prefix}_SNAPSHOT_URI`] = profile.snapshotUri
  }
  return Object.fromEntries(
    Object.entries(properties).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
    ),
  )
}

/** As many scopes as the limit allows. */
function joined(scopes: readonly string[]): string {
  let text = ''
  for (const scope of scopes) {
    const longer = `${text}${text === '' ? '' : ' '}${cameraText(scope)}`
    if (longer.length > MAX_SCOPES_LENGTH) break
    text = longer
  }
  return text
}
