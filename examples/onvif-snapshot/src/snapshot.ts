import http from 'node:http'
import https from 'node:https'
import { Cam } from 'onvif'

/** A camera, and its credential. */
interface CameraAccess {
  /** The URL of the device service. */
  readonly url: string
  readonly username?: string | undefined
  readonly password?: string | undefined
}

/** For each request, in milliseconds. */
const TIMEOUT_MS = 10_000
const MAX_PICTURE_BYTES = 16 * 1024 * 1024

export interface Picture {
  /** Such as `image/jpeg`. */
  readonly type: string
  readonly body: Buffer
}

/** The camera wants a credential, or another one. Further tries can lock its user out. */
export class CredentialRefusedError extends Error {}

/** How cameras refuse a credential in the replies of their services. */
const REFUSAL = /NotAuthorized|Unauthorized|FailedAuthentication|InvalidSecurity|not authorized/i

/** The camera lacks an operation. */
const LACK = /ActionNotSupported|OptionalActionNotImplemented/

/**
 * Takes a picture by the camera's first media profile.
 * @throws CredentialRefusedError after the first request that the camera refuses
 */
export async function takeSnapshot(access: CameraAccess): Promise<Picture> {
  const replies = new LastReply()
  try {
    return await take(access, replies)
  } catch (error) {
    if (!replies.isRefusal(error, access.username)) throw error
    const refused =
      access.username === undefined
        ? 'the camera wants a user name and a password'
        : `the camera refuses the user ${access.username} or the password`
    throw new CredentialRefusedError(refused, { cause: error })
  }
}

/** The last reply of a service. The errors of the library have only parts of it. */
class LastReply {
  #hasCredential = false
  #isAccepted = false
  #status = 0
  #body = ''

  begin(request: string): void {
    this.#hasCredential = request.includes('UsernameToken')
    this.set('', 0)
  }

  set(body: string, status: number): void {
    this.#status = status
    this.#body = body
  }

  /** The camera accepted the credential: its other faults are no refusals. */
  accept(): void {
    this.#isAccepted = true
  }

  /** A refusal of a request without the credential says nothing about the credential. */
  isRefusal(error: unknown, username: string | undefined): boolean {
    if (username !== undefined && !this.#hasCredential) return false
    if (this.#status === 401 || this.#status === 403 || REFUSAL.test(this.#body)) return true
    // Many cameras refuse a credential in other words than those of the specification.
    const isError = this.#status >= 400 && this.#status <= 499
    const isFault = /<([\w.-]+:)?Fault[\s>]/.test(this.#body)
    if (username !== undefined && !this.#isAccepted && (isError || isFault))
      return !LACK.test(this.#body)
    return error instanceof Error && /(authentication|status).* 40[13]\b/.test(error.message)
  }
}

/** The library counts the camera's time from the start of this process. */
function setClock(camera: Cam, time: Date): void {
  camera.timeShift = time.getTime() - process.uptime() * 1000
}

async function take(
  { url, username, password = '' }: CameraAccess,
  replies: LastReply,
): Promise<Picture> {
  const service = new URL(url)
  const secure = service.protocol === 'https:'
  const camera = new Cam({
    hostname: service.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(service.port || (secure ? 443 : 80)),
    path: service.pathname,
    useSecure: secure,
    timeout: TIMEOUT_MS,
    autoconnect: false,
    ...(username !== undefined && { username, password }),
  })
  camera.on('rawRequest', (body: string) => replies.begin(body))
  camera.on('rawResponse', (body: string, status: number) => replies.set(body, status))
  // Tokens have the time of the camera, which refuses a token that looks old. Without its time they
  // have ours: some cameras want a token before they tell their time, or have no such call.
  setClock(camera, new Date())
  await answer<Date>((done) => camera.getSystemDateAndTime(done)).then(
    (time) => setClock(camera, time),
    (error: unknown) => {
      if (replies.isRefusal(error, username)) throw error
    },
  )
  await answer((done) => camera.getServices(true, done)).catch((error: unknown) => {
    if (replies.isRefusal(error, username)) throw error
    return answer((done) => camera.getCapabilities(done))
  })
  await answer((done) => camera.getProfiles(done))
  replies.accept()
  const profileToken = camera.profiles?.[0]?.$?.token
  if (typeof profileToken !== 'string') throw new Error('the camera has no media profile')
  const { uri } = await answer<{ uri: string }>((done) =>
    camera.getSnapshotUri({ profileToken }, done),
  )
  return fetchPicture(new URL(uri), camera)
}

async function fetchPicture(url: URL, camera: Cam): Promise<Picture> {
  const first = await get(url)
  if (first.status !== 401 || camera.username === undefined) return pictureIn(first)
  const authorization = camera.digestAuth(first.challenges, {
    method: 'GET',
    path: `${url.pathname}${url.search}`,
  })
  return pictureIn(await get(url, { authorization }))
}

function pictureIn({ status, type, body }: Reply): Picture {
  // A browser runs the scripts of an SVG.
  if (status !== 200 || !/^image\/(?!svg)/i.test(type))
    throw new Error(`the camera sent no picture: HTTP status ${status}, ${type}`)
  return { type, body }
}

interface Reply {
  readonly status: number
  readonly type: string
  readonly challenges: string[]
  readonly body: Buffer
}

function get(url: URL, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const options = { headers, agent: false, signal: AbortSignal.timeout(TIMEOUT_MS) }
    const request = (url.protocol === 'https:' ? https : http).get(url, options, (response) => {
      const chunks: Buffer[] = []
      let length = 0
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > MAX_PICTURE_BYTES)
          response.destroy(new Error(`the picture has more than ${MAX_PICTURE_BYTES} bytes`))
      })
      response.once('error', reject)
      response.once('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers['content-type'] ?? 'without a type',
          challenges: response.headersDistinct['www-authenticate'] ?? [],
          body: Buffer.concat(chunks),
        })
      })
    })
    request.once('error', reject)
  })
}

function answer<T>(ask: (done: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    ask((error, value) =>
      error || value === undefined
        ? reject(error ?? new Error('the camera sent no answer'))
        : resolve(value),
    )
  })
}
