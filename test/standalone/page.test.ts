import { once } from 'node:events'
import net from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { configuration } from './support/manifests.js'
import { cookieOf, PageStream, pageAddress, visit } from './support/page-visitor.js'

const akri = AkriProgram.ofEachTest()
/** Markup, and a character that turns the direction of text. */
const HOSTILE = '<img src=x onerror=alert(1)>\\u202e'

const echo = (...descriptions: readonly string[]) =>
  configuration(
    'echo',
    `  discoveryHandler:
    name: debugEcho
    discoveryDetails: |
      descriptions: [${descriptions.map((each) => `"${each}"`).join(', ')}]
    discoveryProperties: [{ name: password_default, value: hunter2 }]
`,
  )

async function start(...args: readonly string[]): Promise<string> {
  const file = await akri.write('echo.yaml', echo(HOSTILE))
  akri.start('-f', file, ...args)
  return pageAddress(akri)
}

describe('the page of akri run', () => {
  it('shows the devices to a visitor with the token, and each change', async () => {
    const address = await start()
    const cookie = await cookieOf(address)
    const page = await visit(address, '/', { cookie })
    expect(page.headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'/,
    )
    const markup = await text(page)
    const scripts = [...markup.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, file]) => file ?? '')
    expect(scripts).toEqual(['/page.css', '/page.js'])
    for (const file of scripts)
      expect((await visit(address, file, { cookie })).statusCode).toBe(200)

    const stream = await PageStream.open(address)
    onTestFinished(() => stream.close())
    await eventually(() => expect(stream.text).toContain('event: synced'))
    await eventually(() => expect(stream.text).toContain('"device/default/echo-'))
    await akri.write('echo.yaml', echo(HOSTILE, 'second'))
    await eventually(() => expect(stream.text).toMatch(/event: synced.*:"second"/s))
    await akri.write('echo.yaml', echo('second'))
    await eventually(() => expect(stream.text).toMatch(/\["device\/default\/echo-\w+",null\]/))
  })

  it('sends the name of a device as a text that nothing obeys, and no secret', async () => {
    const stream = await PageStream.open(await start())
    onTestFinished(() => stream.close())
    await eventually(() => expect(stream.text).toContain('"<img src=x onerror=alert(1)>\ufffd"'))
    expect(stream.text).not.toContain('\u202e')
    expect(stream.text).toContain('{"name":"password_default","value":"***"}')
    expect(stream.text).not.toContain('hunter2')
  })

  it('is not served with --no-ui, and as lines of JSON only with --ui', async () => {
    const file = await akri.write('echo.yaml', echo('one'))
    for (const args of [['--no-ui'], ['--log-format', 'json']]) {
      akri.start('-f', file, ...args)
      await eventually(async () => expect(await akri.instances()).toHaveLength(1))
      await akri.stop('SIGTERM')
    }
    expect(akri.output).not.toMatch(/127\.0\.0\.1/)
    akri.start('-f', file, '--log-format', 'json', '--ui', '0')
    expect(await pageAddress(akri)).toMatch(/^http/)
    expect(akri.output).toMatch(/"address":"http:[^"]+","msg":"page served"/)
  })

  it('ends the program if the port of --ui is in use, and says what to do', async () => {
    const other = net.createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    onTestFinished(() => void other.close())
    const address = other.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const file = await akri.write('echo.yaml', echo('one'))
    akri.start('-f', file, '--ui', String(port))
    expect(await akri.ended()).toBe(1)
    expect(akri.output).toContain(
      `the page cannot be served at port ${port} of 127.0.0.1: another program uses it; choose ` +
        'another port with --ui, or leave the page out with --no-ui',
    )
  })
})
