import { type XmlElement, escapeXml as x } from '../xml/xml.js'

/** The facts of a simulated camera. */
export interface SimulatedIdentity {
  /** @default 'Akri' */
  readonly manufacturer: string
  /** @default 'Simulated camera' */
  readonly model: string
  /** @default '1.10' */
  readonly firmware: string
  /** @default '00000000000000000001' */
  readonly serialNumber: string
  /** @default 'simulated' */
  readonly hardwareId: string
  /** @default '02:00:00:00:00:01' */
  readonly macAddress: string
  /** @default the IPv4 address that the camera listens on, else 192.0.2.1 */
  readonly ipAddress: string
  /** @default a name, a location, a hardware scope, a type and a profile */
  readonly scopes: readonly string[]
  /** Tokens of media profiles. @default ['main', 'sub'] */
  readonly profiles: readonly string[]
}

interface ReplyContext {
  readonly identity: SimulatedIdentity
  /** The origin of its services, such as `http://127.0.0.1:8080`. */
  readonly origin: string
  /** The host of its streams, without a port. */
  readonly host: string
  readonly media: readonly (1 | 2)[]
  /** The time of the camera's clock. */
  readonly now: Date
}

const NAMESPACES = {
  tds: 'http://www.onvif.org/ver10/device/wsdl',
  trt: 'http://www.onvif.org/ver10/media/wsdl',
  tr2: 'http://www.onvif.org/ver20/media/wsdl',
  tt: 'http://www.onvif.org/ver10/schema',
  ter: 'http://www.onvif.org/ver10/error',
}

/** Operations without a credential (access class PRE_AUTH). */
export const OPEN_OPERATIONS: readonly string[] = [
  'GetSystemDateAndTime',
  'GetServices',
  'GetServiceCapabilities',
  'GetCapabilities',
  'GetHostname',
]

/** Wraps the content of a SOAP body. */
export function soapEnvelope(content: string, version: '1.1' | '1.2' = '1.2'): string {
  const soap =
    version === '1.2'
      ? 'http://www.w3.org/2003/05/soap-envelope'
      : 'http://schemas.xmlsoap.org/soap/envelope/'
  const declared = Object.entries(NAMESPACES).map(
    ([prefix, namespace]) => ` xmlns:${prefix}="${namespace}"`,
  )
  return (
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    `<SOAP-ENV:Envelope xmlns:SOAP-ENV="${soap}"${declared.join('')}>` +
    `<SOAP-ENV:Body>${content}</SOAP-ENV:Body></SOAP-ENV:Envelope>`
  )
}

/** A fault, with a subcode of ONVIF such as `NotAuthorized`, or without a subcode. */
export function soapFault(
  subcode: string | undefined,
  reason: string,
  version: '1.1' | '1.2' = '1.2',
): string {
  const detail =
    subcode === undefined
      ? ''
      : `<SOAP-ENV:Subcode><SOAP-ENV:Value>ter:${subcode}</SOAP-ENV:Value></SOAP-ENV:Subcode>`
  const content =
    version === '1.2'
      ? `<SOAP-ENV:Code><SOAP-ENV:Value>SOAP-ENV:Sender</SOAP-ENV:Value>${detail}</SOAP-ENV:Code>` +
        '<SOAP-ENV:Reason>' +
        `<SOAP-ENV:Text xml:lang="en">${x(reason)}</SOAP-ENV:Text></SOAP-ENV:Reason>`
      : `<faultcode>SOAP-ENV:Client${subcode === undefined ? '' : `.ter:${subcode}`}</faultcode>` +
        `<faultstring>${x(reason)}</faultstring>`
  return soapEnvelope(`<SOAP-ENV:Fault>${content}</SOAP-ENV:Fault>`, version)
}

/** The content of the answer; undefined if the service does not have the operation. */
export function replyTo(operation: XmlElement, context: ReplyContext): string | undefined {
  const { namespace, name } = operation
  const services = { [NAMESPACES.tds]: device, [NAMESPACES.trt]: media1, [NAMESPACES.tr2]: media2 }
  const prefix = Object.entries(NAMESPACES).find(([, uri]) => uri === namespace)?.[0]
  const content = services[namespace ?? '']?.(operation, context)
  return content === undefined
    ? undefined
    : `<${prefix}:${name}Response>${content}</${prefix}:${name}Response>`
}

function device(
  { name }: XmlElement,
  { identity, origin, media, now }: ReplyContext,
): string | undefined {
  switch (name) {
    case 'GetSystemDateAndTime': {
      const time =
        `<tt:Time><tt:Hour>${now.getUTCHours()}</tt:Hour>` +
        `<tt:Minute>${now.getUTCMinutes()}</tt:Minute>` +
        `<tt:Second>${now.getUTCSeconds()}</tt:Second></tt:Time>`
      const date =
        `<tt:Date><tt:Year>${now.getUTCFullYear()}</tt:Year>` +
        `<tt:Month>${now.getUTCMonth() + 1}</tt:Month>` +
        `<tt:Day>${now.getUTCDate()}</tt:Day></tt:Date>`
      return (
        '<tds:SystemDateAndTime><tt:DateTimeType>Manual</tt:DateTimeType>' +
        '<tt:DaylightSavings>false</tt:DaylightSavings>' +
        '<tt:TimeZone><tt:TZ>UTC0</tt:TZ></tt:TimeZone>' +
        `<tt:UTCDateTime>${time}${date}</tt:UTCDateTime></tds:SystemDateAndTime>`
      )
    }
    case 'GetDeviceInformation':
      return (
        `<tds:Manufacturer>${x(identity.manufacturer)}</tds:Manufacturer>` +
        `<tds:Model>${x(identity.model)}</tds:Model>` +
        `<tds:FirmwareVersion>${x(identity.firmware)}</tds:FirmwareVersion>` +
        `<tds:SerialNumber>${x(identity.serialNumber)}</tds:SerialNumber>` +
        `<tds:HardwareId>${x(identity.hardwareId)}</tds:HardwareId>`
      )
    case 'GetNetworkInterfaces':
      return (
        '<tds:NetworkInterfaces token="eth0"><tt:Enabled>true</tt:Enabled><tt:Info>' +
        `<tt:Name>eth0</tt:Name><tt:HwAddress>${x(identity.macAddress)}</tt:HwAddress>` +
        '<tt:MTU>1500</tt:MTU></tt:Info>' +
        '<tt:IPv4><tt:Enabled>true</tt:Enabled><tt:Config><tt:Manual>' +
        `<tt:Address>${x(identity.ipAddress)}</tt:Address>` +
        '<tt:PrefixLength>24</tt:PrefixLength></tt:Manual>' +
        '<tt:DHCP>false</tt:DHCP></tt:Config></tt:IPv4></tds:NetworkInterfaces>'
      )
    case 'GetScopes':
      return identity.scopes
        .map(
          (scope) =>
            '<tds:Scopes><tt:ScopeDef>Fixed</tt:ScopeDef>' +
            `<tt:ScopeItem>${x(scope)}</tt:ScopeItem></tds:Scopes>`,
        )
        .join('')
    case 'GetServices':
      return [
        [NAMESPACES.tds, 'device_service'],
        ...media.map((version) =>
          version === 1 ? [NAMESPACES.trt, 'media_service'] : [NAMESPACES.tr2, 'media2_service'],
        ),
      ]
        .map(
          ([namespace, file]) =>
            `<tds:Service><tds:Namespace>${namespace}</tds:Namespace>` +
            `<tds:XAddr>${x(origin)}/onvif/${file}</tds:XAddr>` +
            '<tds:Version><tt:Major>2</tt:Major><tt:Minor>60</tt:Minor></tds:Version>' +
            '</tds:Service>',
        )
        .join('')
    case 'GetCapabilities': {
      const mediaService = media.includes(1)
        ? `<tt:Media><tt:XAddr>${x(origin)}/onvif/media_service</tt:XAddr>` +
          '<tt:StreamingCapabilities>' +
          '<tt:RTP_RTSP_TCP>true</tt:RTP_RTSP_TCP></tt:StreamingCapabilities></tt:Media>'
        : ''
      return (
        '<tds:Capabilities>' +
        `<tt:Device><tt:XAddr>${x(origin)}/onvif/device_service</tt:XAddr></tt:Device>` +
        `${mediaService}</tds:Capabilities>`
      )
    }
    default:
      return undefined
  }
}

/** The size of its picture. */
const [WIDTH, HEIGHT] = [32, 8]
const RESOLUTION =
  `<tt:Resolution><tt:Width>${WIDTH}</tt:Width>` +
  `<tt:Height>${HEIGHT}</tt:Height></tt:Resolution>`
const VIDEO_SOURCE =
  '<tt:Name>source</tt:Name><tt:UseCount>1</tt:UseCount><tt:SourceToken>sensor</tt:SourceToken>' +
  `<tt:Bounds x="0" y="0" width="${WIDTH}" height="${HEIGHT}"/>`
const ENCODING = `<tt:Encoding>JPEG</tt:Encoding>${RESOLUTION}`

function media1(operation: XmlElement, context: ReplyContext): string | undefined {
  if (!context.media.includes(1)) return undefined
  const uri = (text: string | undefined) =>
    text === undefined
      ? undefined
      : `<trt:MediaUri><tt:Uri>${x(text)}</tt:Uri>` +
        '<tt:InvalidAfterConnect>false</tt:InvalidAfterConnect>' +
        '<tt:InvalidAfterReboot>false</tt:InvalidAfterReboot>' +
        '<tt:Timeout>PT0S</tt:Timeout></trt:MediaUri>'
  switch (operation.name) {
    case 'GetProfiles':
      return context.identity.profiles
        .map(
          (token) =>
            `<trt:Profiles token="${x(token)}" fixed="true"><tt:Name>${x(token)}</tt:Name>` +
            `<tt:VideoSourceConfiguration token="source">${VIDEO_SOURCE}` +
            '</tt:VideoSourceConfiguration>' +
            `<tt:VideoEncoderConfiguration token="${x(token)}"><tt:Name>${x(token)}</tt:Name>` +
            `<tt:UseCount>1</tt:UseCount>${ENCODING}<tt:Quality>1</tt:Quality>` +
            '<tt:RateControl><tt:FrameRateLimit>1</tt:FrameRateLimit>' +
            '<tt:EncodingInterval>1</tt:EncodingInterval>' +
            '<tt:BitrateLimit>64</tt:BitrateLimit></tt:RateControl>' +
            '</tt:VideoEncoderConfiguration></trt:Profiles>',
        )
        .join('')
    case 'GetVideoSources':
      return (
        '<trt:VideoSources token="sensor">' +
        `<tt:Framerate>1</tt:Framerate>${RESOLUTION}</trt:VideoSources>`
      )
    case 'GetStreamUri':
      return uri(streamUri(operation, context))
    case 'GetSnapshotUri':
      return uri(snapshotUri(operation, context))
    default:
      return undefined
  }
}

function media2(operation: XmlElement, context: ReplyContext): string | undefined {
  if (!context.media.includes(2)) return undefined
  const uri = (text: string | undefined) =>
    text === undefined ? undefined : `<tr2:Uri>${x(text)}</tr2:Uri>`
  switch (operation.name) {
    case 'GetProfiles':
      return context.identity.profiles
        .map(
          (token) =>
            `<tr2:Profiles token="${x(token)}" fixed="true"><tr2:Name>${x(token)}</tr2:Name>` +
            '<tr2:Configurations>' +
            `<tr2:VideoSource token="source">${VIDEO_SOURCE}</tr2:VideoSource>` +
            `<tr2:VideoEncoder token="${x(token)}"><tt:Name>${x(token)}</tt:Name>` +
            `<tt:UseCount>1</tt:UseCount>${ENCODING}<tt:Quality>1</tt:Quality>` +
            '</tr2:VideoEncoder>' +
            '</tr2:Configurations></tr2:Profiles>',
        )
        .join('')
    case 'GetVideoSourceConfigurations':
      return `<tr2:Configurations token="source">${VIDEO_SOURCE}</tr2:Configurations>`
    case 'GetStreamUri':
      return uri(streamUri(operation, context))
    case 'GetSnapshotUri':
      return uri(snapshotUri(operation, context))
    default:
      return undefined
  }
}

function streamUri(operation: XmlElement, { identity, host }: ReplyContext): string | undefined {
  const token = operation.textOf('ProfileToken') ?? ''
  return identity.profiles.includes(token)
    ? `rtsp://${host}:554/${encodeURIComponent(token)}`
    : undefined
}

function snapshotUri(
  operation: XmlElement,
  { identity, origin }: ReplyContext,
): string | undefined {
  const token = operation.textOf('ProfileToken') ?? ''
  return identity.profiles.includes(token)
    ? `${origin}/snapshot/${encodeURIComponent(token)}`
    : undefined
}
