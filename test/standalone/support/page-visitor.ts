import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import { eventually } from '../../support/eventually.js'

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}/g

/** The address of the page that the newest run of a program has printed. */
export function pageAddress(akri: { readonly output: string }): Promise<string> {
  return eventually(() => {
    const found = akri.output.match(ADDRESS)?.at(-1)
    if (found === undefined) throw new TypeError('no address yet')
    return found
  })
}

/** Asks for a path of the page, as a client that is no browser. */
export async function visit(
  address: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<IncomingMessage> {
  const { hostname, port } = new URL(address)
  const [response] = await once(
    request({ host: hostname, port, path, headers, agent: false }).end(),
    'response',
  )
  return response
}

/** The cookie that the address with the token gives. */
export async function cookieOf(address: string): Promise<string> {
  const { pathname, search } = new URL(address)
  const response = await visit(address, `${pathname}${search}`)
  expect(response.statusCode).toBe(303)
  expect(response.headers.location).toBe('/')
  const [cookie = ''] = response.headers['set-cookie'] ?? []
  return cookie.slice(0, cookie.indexOf(';'))
}

/** What a visitor gets without the page: a short notice. */
export async function noticeAt(visited: Promise<IncomingMessage>): Promise<string> {
  const response = await visited
  expect(response.statusCode).toBe(403)
  return text(response)
}

/** The stream of the page, as far as it has come. */
export class PageStream {
  #text = ''
  readonly #response: IncomingMessage

  private constructor(response: IncomingMessage) {
    this.#response = response
    response.on('error', () => {}).setEncoding('utf8')
    response.on('data', (chunk: string) => {
      this.#text += chunk
    })
  }

  static async open(address: string): Promise<PageStream> {
    const cookie = await cookieOf(address)
    return new PageStream(await visit(address, '/api/watch', { cookie }))
  }

  get text(): string {
    return this.#text
  }

  close(): void {
    this.#response.destroy()
  }
}
