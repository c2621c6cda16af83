import { cameraText } from '../xml/camera-text.js'
import { escapeXml, type XmlElement } from '../xml/xml.js'
import { MEDIA_1, MEDIA_2 } from './device-operations.js'
import type { SoapCall } from './soap.js'

/** The operations of a media service. The functions below read their answers. */
export type MediaService = ReturnType<typeof mediaService>

function mediaService(namespace: string, streamSetup: string) {
  const withToken = (operation: string, token: string, before = ''): SoapCall => ({
    namespace,
    operation,
    body: `${before}<ProfileToken>${escapeXml(token)}</ProfileToken>`,
  })
  const getProfiles: SoapCall = { namespace, operation: 'GetProfiles', isLong: true }
  return {
    namespace,
    getProfiles,
    getStreamUri: (token: string) => withToken('GetStreamUri', token, streamSetup),
    getSnapshotUri: (token: string) => withToken('GetSnapshotUri', token),
  }
}

const SCHEMA = 'http://www.onvif.org/ver10/schema'

/**
 * Media 2 is the service of ONVIF profile T and later, media 1 that of profile S. Media 2 comes
 * first: only media 2 has profiles with H.265.
 */
export const MEDIA_SERVICES: readonly MediaService[] = [
  mediaService(MEDIA_2, '<Protocol>RTSP</Protocol>'),
  mediaService(
    MEDIA_1,
    `<StreamSetup><Stream xmlns="${SCHEMA}">RTP-Unicast</Stream>` +
      `<Transport xmlns="${SCHEMA}"><Protocol>RTSP</Protocol></Transport></StreamSetup>`,
  ),
]

/** The limit of profiles of one camera: each costs two requests. */
const MAX_PROFILES = 16

export function readProfiles(
  response: XmlElement,
): { readonly token: string; readonly name: string }[] {
  const profiles = response.all('Profiles').map((profile) => ({
    token: profile.attributes.get('token') ?? '',
    name: cameraText(profile.textOf('Name') ?? ''),
  }))
  return profiles.filter(({ token }) => /^\P{C}{1,256}$/u.test(token)).slice(0, MAX_PROFILES)
}

/** Reads the answer to GetStreamUri and GetSnapshotUri, of media 1 and media 2. */
export function readUri(response: XmlElement): string | undefined {
  return response.textOf('MediaUri', 'Uri') ?? response.textOf('Uri')
}
