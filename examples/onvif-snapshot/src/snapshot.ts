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

/** Takes a picture by the camera's first media profile. */
export async function takeSnapshot({
  url,
  username,
  password = '',
}: CameraAccess): Promise<Buffer> {
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
  // The clock comes first: the camera refuses a token that looks old.
  await answer((done) => camera.getSystemDateAndTime(done))
  await answer((done) => camera.getServices(true, done)).catch(() =>
    answer((done) => camera.getCapabilities(done)),
  )
  await answer((done) => camera.getProfiles(done))
  const profileToken = camera.profiles?.[0]?.$?.token
  if (typeof profileToken !== 'string') throw new Error('the camera has no media profile')
  const { uri } = await answer<{ uri: string }>((done) =>
    camera.getSnapshotUri({ profileToken }, done),
  )
  return fetchPicture(new URL(uri), camera)
}

async function fetchPicture(url: URL, camera: Cam): Promise<Buffer> {
  const first = await get(url)
  if (first.status !== 401 || camera.username === undefined) return pictureIn(first)
  const authorization = camera.digestAuth(first.challenges, {
    method: 'GET',
    path: `${url.pathname}${url.search}`,
  })
  return pictureIn(await get(url, { authorization }))
}

function pictureIn({ status, type, body }: Reply): Buffer {
  if (status !== 200 || !type.startsWith('image/'))
    throw new Error(`the camera sent no picture: HTTP status ${status}, ${type}`)
  return body
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
