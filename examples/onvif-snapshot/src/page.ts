import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import type { Picture } from './snapshot.js'

interface PageOptions {
  /** 0 for a free port. If the port is in use, the next free port is taken. */
  readonly port: number
  /** @default all addresses of the machine */
  readonly address: string | undefined
  /** After this time a browser loads the page again. */
  readonly seconds: number
}

/** How many ports are tried. */
const PORTS = 100

/** Serves the last picture, or why there is none. */
export class Page {
  readonly url: string
  readonly #server: http.Server
  #content: Picture = text('there is no picture yet')
  #status = 503

  private constructor(server: http.Server, { address, seconds }: PageOptions) {
    const bound = server.address()
    const host = address ?? os.hostname()
    const port = typeof bound === 'object' ? bound?.port : undefined
    this.url = `http://${net.isIPv6(host) ? `[${host}]` : host}:${port}/`
    this.#server = server
    server.on('request', (_request: http.IncomingMessage, response: http.ServerResponse) => {
      const { type, body } = this.#content
      response.writeHead(this.#status, {
        'content-type': type,
        'content-length': body.length,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        refresh: String(Math.max(1, Math.round(seconds))),
      })
      response.end(body)
    })
  }

  /** @throws Error if no port is free */
  static async open(options: PageOptions): Promise<Page> {
    for (let port = options.port; ; port++) {
      const server = http.createServer()
      try {
        server.listen({ port, ...(options.address !== undefined && { host: options.address }) })
        await once(server, 'listening')
        return new Page(server, options)
      } catch (error) {
        const isLast = port + 1 >= options.port + PORTS || port === 65_535
        if (!isInUse(error) || isLast) throw error
      }
    }
  }

  show(picture: Picture): void {
    this.#content = picture
    this.#status = 200
  }

  /** Shows a line of text in place of the picture. */
  tell(line: string): void {
    this.#content = text(line)
    this.#status = 503
  }

  /** Whether it shows a picture. */
  get hasPicture(): boolean {
    return this.#status === 200
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

function text(line: string): Picture {
  return { type: 'text/plain; charset=utf-8', body: Buffer.from(`${line}\n`) }
}

function isInUse(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
}
