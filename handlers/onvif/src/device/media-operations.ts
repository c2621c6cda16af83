import { escapeXml, type XmlElement } from '../xml.js'
import { cameraText } from './camera-text.js'
import { MEDIA_1, MEDIA_2 } from './device-operations.js'
import type { SoapCall } from './soap.js'

/** The operations of a media service. The functions below read their answers. */
export interface MediaService {
  readonly namespace: string
  readonly getProfiles: SoapCall
  getStreamUri(token: string): SoapCall
  getSnapshotUri(token: string): SoapCall
}

/** The media service of ONVIF profile T and later. */
const media2: MediaService = {
  namespace: MEDIA_2,
  getProfiles: { namespace: MEDIA_2, operation: 'GetProfiles', isLong: true },
  getStreamUri: (token) => ({
    namespace: MEDIA_2,
    operation: 'GetStreamUri',
    body: `<Protocol>RTSP</Protocol>${tokenOf(token)}`,
  }),
  getSnapshotUri: (token) => ({
    namespace: MEDIA_2,
    operation: 'GetSnapshotUri',
    body: tokenOf(token),
  }),
}

/** The media service of ONVIF profile S. */
const media1: MediaService = {
  namespace: MEDIA_1,
  getProfiles: { namespace: MEDIA_1, operation: 'GetProfiles', isLong: true },
  getStreamUri: (token) => ({
    namespace: MEDIA_1,
    operation: 'GetStreamUri',
    body: `<StreamSetup>${STREAM_SETUP}</StreamSetup>${tokenOf(token)}`,
  }),
  getSnapshotUri: (token) => ({
    namespace: MEDIA_1,
    operation: 'GetSnapshotUri',
    body: tokenOf(token),
  }),
}

const SCHEMA = 'http://www.onvif.org/ver10/schema'
const STREAM_SETUP = `<Stream xmlns="${SCHEMA}">RTP-Unicast</Stream><Transport xmlns="${SCHEMA}"><Protocol>RTSP</Protocol></Transport>`

/** Media 2 comes first: only media 2 has profiles with H.265. */
export const MEDIA_SERVICES: readonly MediaService[] = [media2, media1]

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

function tokenOf(token: string): string {
  return `<ProfileToken>${escapeXml(token)}</ProfileToken>`
}
