import { addressOfUrl } from '@akrijs/sdk/network'
import { SaxesParser } from 'saxes'
import { MAX_DESCRIPTION_BYTES } from './limits.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const http = process.getBuiltinModule('node:http')

/** The time limit of a description, in milliseconds. */
const READ_MS = 3000

/** The elements of a description that become properties (UPnP Device Architecture 2.0, 2.3). */
const ELEMENTS = [
  'deviceType',
  'friendlyName',
  'manufacturer',
  'modelName',
  'modelNumber',
  'serialNumber',
] as const

/** What the description of a device says, as far as it says it. */
export type Description = Readonly<Partial<Record<(typeof ELEMENTS)[number], string>>>

/**
 * Reads the description of a device.
 * @param location the URL that the device has announced
 * @param sender the address of the device. No other address is called: any machine can announce any
 *   URL
 * @throws an Error whose message says why, for people
 */
export async function readDescription(
  location: string,
  sender: string,
  signal: AbortSignal,
): Promise<Description> {
  if (!location.startsWith('http://')) throw new Error('its URL does not begin with http://')
  if (addressOfUrl(location) !== sender) throw new Error('its URL is that of another machine')
  const timeLimit = AbortSignal.timeout(READ_MS)
  try {
    return parseDescription(await get(location, AbortSignal.any([signal, timeLimit])))
  } catch (error) {
    if (timeLimit.aborted) throw new Error(`no answer in ${READ_MS / 1000} s`, { cause: error })
    throw error
  }
}

function get(location: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = http.get(location, { signal, agent: false }, (response) => {
      const parts: Buffer[] = []
      let bytes = 0
      response.on('error', reject)
      response.on('data', (part: Buffer) => {
        parts.push(part)
        bytes += part.length
        if (bytes > MAX_DESCRIPTION_BYTES)
          request.destroy(new Error(`it is longer than ${MAX_DESCRIPTION_BYTES} bytes`))
      })
      response.on('end', () => {
        if (response.statusCode === 200) resolve(Buffer.concat(parts).toString('utf8'))
        else reject(new Error(`HTTP status ${response.statusCode}`))
      })
    })
    request.on('error', reject)
    // Without any other event after an answer with status 101.
    request.on('close', () => reject(new Error('connection closed')))
  })
}

/** The values of the first device: others are parts of it. @throws Error if it is no description */
export function parseDescription(xml: string): Description {
  const found: Record<string, string> = {}
  const path: string[] = []
  let text = ''
  const parser = new SaxesParser()
  parser.on('error', (error) => {
    throw new Error(`it is not XML: ${error.message.slice(0, 150)}`, { cause: error })
  })
  parser.on('opentag', ({ name }) => {
    path.push(name.replace(/^.*:/, ''))
    text = ''
    if (path.length > 64) throw new Error('its elements are nested too deeply')
  })
  for (const kind of ['text', 'cdata'] as const)
    parser.on(kind, (part) => {
      text += part
    })
  parser.on('closetag', () => {
    const name = path.pop() ?? ''
    const value = text.trim()
    const isOfDevice = path.join('/') === 'root/device'
    // The first counts. A value goes into the environment of containers.
    if (isOfDevice && value !== '' && value.length <= 512 && !/\p{Cc}/u.test(value))
      found[name] ??= value
  })
  parser.write(xml).close()
  return Object.fromEntries(
    ELEMENTS.flatMap((name) => (Object.hasOwn(found, name) ? [[name, found[name]]] : [])),
  )
}
