import { inflateRawSync, unzipSync } from 'node:zlib'
import { messageOf } from '@akrijs/sdk'
import { OnvifReplyError } from '../errors.js'

/** The parts of an HTTP reply that tell how its body is written. */
export interface WrittenBody {
  readonly body: Buffer
  /** The headers Content-Type and Content-Encoding; empty if they are missing. */
  readonly contentType: string
  readonly contentEncoding: string
}

/** A document of XML, with the encoding that the header names. */
export interface ReplyDocument {
  readonly bytes: Buffer
  readonly charset: string | undefined
}

/**
 * The XML document in a reply: cameras compress it, although nothing asks for that, or send it as
 * the first part of a multipart message, as SOAP with attachments has it.
 * @throws OnvifReplyError
 */
export function documentOf(reply: WrittenBody, maxBytes: number): ReplyDocument {
  const bytes = uncompressed(reply, maxBytes)
  const { contentType } = reply
  if (!/^\s*multipart\//i.test(contentType))
    return { bytes, charset: parameterOf(contentType, 'charset') }
  const boundary = parameterOf(contentType, 'boundary')
  if (boundary === undefined) throw new OnvifReplyError('the multipart answer names no boundary')
  const { headers, content } = rootPart(bytes, boundary, parameterOf(contentType, 'start'))
  return { bytes: content, charset: parameterOf(headers.get('content-type') ?? '', 'charset') }
}

function uncompressed({ body, contentEncoding }: WrittenBody, maxBytes: number): Buffer {
  const encoding = contentEncoding.trim().toLowerCase()
  const isGzip = body[0] === 0x1f && body[1] === 0x8b
  if (!isGzip && ['', 'identity', 'gzip', 'x-gzip'].includes(encoding)) return body
  if (!isGzip && encoding !== 'deflate')
    throw new OnvifReplyError(`the answer has the content encoding ${JSON.stringify(encoding)}`)
  // Some servers send `deflate` without the header of zlib (RFC 9110, section 8.4.1.2).
  const decompress = isGzip || isZlib(body) ? unzipSync : inflateRawSync
  try {
    return decompress(body, { maxOutputLength: maxBytes })
  } catch (error) {
    throw new OnvifReplyError(`the answer cannot be decompressed: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/** Whether the bytes begin with the header of RFC 1950, section 2.2. */
function isZlib(body: Buffer): boolean {
  const header = body.length < 2 ? 0 : body.readUInt16BE()
  return ((header >> 8) & 0x0f) === DEFLATE && header % 31 === 0
}

/** The method of compression in the header of zlib. */
const DEFLATE = 8

/** The limit of the parts before the root part. */
const MAX_PARTS = 16
const MAX_PART_HEADER_BYTES = 4096

function rootPart(
  bytes: Buffer,
  boundary: string,
  start: string | undefined,
): { readonly headers: ReadonlyMap<string, string>; readonly content: Buffer } {
  const delimiter = `--${boundary}`
  let from = findDelimiter(bytes, delimiter, 0)
  for (let part = 0; from >= 0 && part < MAX_PARTS; part++) {
    const next = findDelimiter(bytes, delimiter, from + delimiter.length)
    const whole = bytes.subarray(from + delimiter.length, next < 0 ? endOf(bytes, delimiter) : next)
    const [blank, length] = blankLine(whole)
    if (blank < 0) break
    if (blank > MAX_PART_HEADER_BYTES)
      throw new OnvifReplyError(
        `a part of the multipart answer has a header of ${blank} bytes, more than ` +
          `${MAX_PART_HEADER_BYTES}`,
      )
    const headers = headersOf(whole.toString('latin1', 0, blank))
    if (start === undefined || partId(headers.get('content-id') ?? '') === partId(start))
      return { headers, content: whole.subarray(blank + length) }
    from = next
  }
  throw new OnvifReplyError('the multipart answer has no root part')
}

/**
 * The place of the next delimiter: at the beginning of a line, and followed by `--`, white space or
 * the end (RFC 2046, section 5.1.1). Elsewhere the same text is content.
 */
function findDelimiter(bytes: Buffer, delimiter: string, from: number): number {
  for (let at = bytes.indexOf(delimiter, from, 'latin1'); at >= 0; ) {
    const after = bytes.toString('latin1', at + delimiter.length, at + delimiter.length + 2)
    if ((at === 0 || bytes[at - 1] === LF) && /^(?:--|\s|$)/.test(after)) return at
    at = bytes.indexOf(delimiter, at + 1, 'latin1')
  }
  return -1
}

const LF = 0x0a

/** The end of the last part. Some cameras forget its delimiter, or the line break before it. */
function endOf(bytes: Buffer, delimiter: string): number {
  const last = `${delimiter}--`
  const at = bytes.lastIndexOf(last, bytes.length, 'latin1')
  const isLast = at >= 0 && bytes.toString('latin1', at + last.length).trim() === ''
  return isLast ? at : bytes.length
}

/** Only one of `start` and Content-ID may have the brackets of RFC 2392. */
function partId(text: string): string {
  return text.trim().replace(/^<(.*)>$/, '$1')
}

/** The place and the length of the end of the headers of a part. */
function blankLine(part: Buffer): readonly [place: number, length: number] {
  const loose = part.indexOf('\n\n')
  const strict = part.indexOf('\r\n\r\n')
  return strict >= 0 && (loose < 0 || strict < loose) ? [strict, 4] : [loose, 2]
}

function headersOf(text: string): Map<string, string> {
  return new Map(
    text.split('\n').flatMap((line) => {
      // Not one regular expression: a long row of spaces would take quadratic time.
      const colon = line.indexOf(':')
      const name = line.slice(0, Math.max(colon, 0)).trimEnd().toLowerCase()
      return name === '' ? [] : [[name, line.slice(colon + 1).trim()]]
    }),
  )
}

/** A parameter of a Content-Type, without quotes. */
function parameterOf(contentType: string, name: string): string | undefined {
  for (const [, key, quoted, plain] of contentType.matchAll(
    /;\s*([\w-]+)=(?:"([^"]*)"|([^\s;]+))/g,
  ))
    if (key?.toLowerCase() === name) return quoted ?? plain
  return undefined
}
