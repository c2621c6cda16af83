import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { deviceNamed, MemorySource } from '../testing/memory-source.js'
import { serveUi, type UiServer } from './ui-server.js'

const TOKEN = 'the-token'

describe('the server of the page', () => {
  let directory: string
  let source: MemorySource
  let server: UiServer
  let port: number

  beforeAll(async () => {
    directory = await temporaryDirectory()
    await mkdir(path.join(directory, 'page'))
    await writeFile(path.join(directory, 'page/index.html'), '<!doctype html>the page')
    await writeFile(path.join(directory, 'page/page.js'), 'the script')
    await writeFile(path.join(directory, 'page/notes.txt'), 'not for browsers')
    await writeFile(path.join(directory, 'secret.js'), 'a secret')
  })

  const open = (more: Partial<Parameters<typeof serveUi>[0]> = {}) =>
    serveUi({
      source,
      page: pathToFileURL(path.join(directory, 'page/')),
      token: TOKEN,
      clock: systemClock,
      log: silentLogger,
      ...more,
    })

  beforeEach(async () => {
    source = new MemorySource()
    source.putObject(deviceNamed('lab-000001', { NAME: 'first' }))
    server = await open()
    port = Number(new URL(server.address).port)
  })

  afterEach(() => server.close())

  async function get(url: string, headers: Readonly<Record<string, string>> = {}) {
    const cookie = `akri-${port}=${TOKEN}`
    const options = { host: '127.0.0.1', port, path: url, headers: { cookie, ...headers } }
    const call = request({ ...options, agent: false }).end()
    const [response]: IncomingMessage[] = await once(call, 'response')
    if (response === undefined) throw new TypeError('no response')
    return response
  }

  const bodyOf = async (url: string) => text(await get(url))

  it('is on the loopback interface only', () => {
    expect(server.address).toBe(`http://127.0.0.1:${port}/?token=${TOKEN}`)
  })

  it('has another token each time', async () => {
    const servers = await Promise.all(
      [1, 2].map(() =>
        serveUi({
          source,
          page: pathToFileURL(path.join(directory, 'page/')),
          clock: systemClock,
          log: silentLogger,
        }),
      ),
    )
    const tokens = servers.map(({ address }) => new URL(address).searchParams.get('token'))
    for (const token of tokens) expect(token).toMatch(/^[\w-]{43}$/)
    expect(tokens[0]).not.toBe(tokens[1])
    await Promise.all(servers.map((each) => each.close()))
  })

  it('sends a visitor with the token to the address without it', async () => {
    const response = await get(`/?token=${TOKEN}`, { cookie: '' })
    expect(response.statusCode).toBe(303)
    expect(response.headers.location).toBe('/')
    expect(response.headers['set-cookie']?.[0]).toContain(`akri-${port}=${TOKEN}; HttpOnly`)
  })

  it('gives a visitor without the token nothing but the way to it', async () => {
    for (const url of ['/', '/page.js', '/api/watch', '/devices', '/none']) {
      const response = await get(url, { cookie: '' })
      expect(response.statusCode).toBe(403)
      expect(await text(response)).toMatch(/^<!doctype html>.*akri prints that address/)
    }
  })

  it.each([
    [{ host: 'evil.example' }, 'Open this page at'],
    [{ origin: 'http://evil.example' }, 'other sites'],
  ])('gives a visitor with the headers %j nothing but the reason', async (headers, reason) => {
    for (const url of ['/', '/page.js', '/api/watch', `/?token=${TOKEN}`]) {
      const response = await get(url, headers)
      expect(response.statusCode).toBe(403)
      expect(await text(response)).toContain(reason)
    }
  })

  it('forbids all scripts, styles, frames and addresses but its own', async () => {
    for (const url of ['/', '/page.js', '/none']) {
      const { headers } = await get(url)
      expect(headers['content-security-policy']).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'/,
      )
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(headers['referrer-policy']).toBe('no-referrer')
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  it('serves the page for each address of the page', async () => {
    for (const url of ['/', '/devices', '/devices?q=a', '/devices/plant/lab-1', '/handlers'])
      expect(await bodyOf(url)).toBe('<!doctype html>the page')
    expect(await bodyOf('/page.js')).toBe('the script')
  })

  it.each([
    '/../secret.js',
    '/%2e%2e/secret.js',
    '/..%2fsecret.js',
    '//secret.js',
    '/notes.txt',
    '/devices/../../secret.js',
    'http://127.0.0.1/page.js',
    '/__proto__',
    '/%',
  ])('has no file for %s', async (url) => {
    expect((await get(url)).statusCode).toBe(404)
  })

  it('streams all items, and then each change', async () => {
    const response = await get('/api/watch')
    expect(response.headers['content-type']).toBe('text/event-stream')
    let got = ''
    response.on('data', (chunk) => {
      got += String(chunk)
    })
    await eventually(() => expect(got).toMatch(/first.*event: synced/s))
    source.putObject(deviceNamed('lab-000002', { NAME: 'second' }))
    await eventually(() => expect(got).toMatch(/event: synced.*second/s))
    response.destroy()
  })

  it('serves 16 streams, and another one when a reader has left', async () => {
    const streams = await Promise.all(Array.from({ length: 16 }, () => get('/api/watch')))
    expect(streams.map(({ statusCode }) => statusCode)).toEqual(Array(16).fill(200))
    expect((await get('/api/watch')).statusCode).toBe(503)
    streams[0]?.destroy()
    await eventually(async () => {
      const response = await get('/api/watch')
      response.destroy()
      expect(response.statusCode).toBe(200)
    })
    for (const stream of streams) stream.destroy()
  })

  it('ends the streams of its readers when it closes', async () => {
    const response = await get('/api/watch')
    response.on('error', () => {}).resume()
    await server.close()
    await eventually(() => expect(response.destroyed).toBe(true))
    server = await open()
  })

  it('has no token behind a proxy, but hosts and an answer to probes', async () => {
    await server.close()
    server = await open({ proxied: { hosts: ['devices.example.com'] } })
    port = Number(new URL(server.address).port)
    expect(server.address).toBe(`http://localhost:${port}/`)
    const host = 'devices.example.com'
    const page = await get('/devices', { cookie: '', host })
    expect([page.statusCode, await text(page)]).toEqual([200, '<!doctype html>the page'])
    expect((await get('/devices')).statusCode).toBe(403)
    const stream = await get('/api/watch', { host })
    expect(stream.headers['x-accel-buffering']).toBe('no')
    stream.destroy()
    expect(await bodyOf('/healthz')).toBe('ok\n')
  })

  it('is at the address that it is given behind a proxy', async () => {
    await server.close()
    server = await open({ proxied: { hosts: ['a.example'], listen: '127.0.0.1' } })
    expect(server.address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/)
  })

  it('has no answer to probes with a token', async () => {
    expect((await get('/healthz', { cookie: '' })).statusCode).toBe(403)
  })

  it('says which port is in use, and what to do', async () => {
    const other = net.createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const address = other.address()
    const used = typeof address === 'object' && address !== null ? address.port : 0
    await expect(open({ port: used })).rejects.toThrow(
      `port ${used} of 127.0.0.1: another program uses it; choose another port`,
    )
    other.close()
  })
})
