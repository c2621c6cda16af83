import type {
  Credential,
  DiscoveryFaults,
  Misbehaviour,
  SimulatedCameraOptions,
} from '../../index.js'

/** A camera as it is found in the field, and what the handler does about it. */
export interface AwkwardCamera {
  readonly name: string
  readonly options?: (to: Place) => SimulatedCameraOptions
  readonly faults?: DiscoveryFaults
  readonly misbehave?: readonly [how: Misbehaviour, operations?: readonly string[]]
  /** The credential that the handler has for the camera. */
  readonly as?: Credential
  /** `offered` with the value of ONVIF_DEVICE_AUTHENTICATION, or the reason why it is left out. */
  readonly expected: string
}

/** What a camera needs to know before it is started. */
export interface Place {
  readonly address: string
  /** A port of that address on which nothing listens. */
  readonly closedPort: number
  /** A port for the camera. */
  readonly port: number
}

export const credential = { username: 'admin', password: 'correct horse' }
export const wrong = { ...credential, password: 'hunter2' }
export const isClosed = { credential, openOperations: [] } as const
export const DEVICE = '/onvif/device_service'

/** A URL of the camera. */
export const at = ({ address, port }: Place, path = DEVICE) => `http://${address}:${port}${path}`
export const announcing =
  (...xAddrs: readonly ((to: Place) => string)[]) =>
  (to: Place) => ({ port: to.port, xAddrs: xAddrs.map((xAddr) => xAddr(to)) })
/** Replaces a part of a correct reply, and sends it with status 200. */
export const replacing = (part: string | RegExp, by: string): Misbehaviour => ({
  answer: (response, correct) =>
    response
      .writeHead(200, { 'content-type': 'application/soap+xml' })
      .end(correct.replace(part, by)),
})
export const page = (status: number): Misbehaviour => ({
  answer: (response) => response.writeHead(status, { 'content-type': 'text/html' }).end('<p>no'),
})
export const raw = (head: string): Misbehaviour => ({
  answer: ({ socket }, correct) => socket?.end(`${head}\r\n\r\n${correct}`),
})
